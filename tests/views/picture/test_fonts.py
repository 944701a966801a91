"""Labels in any script: fonts that have the letters, else a box and the name of the font to install."""

import warnings

import pytest
from matplotlib.font_manager import fontManager
from pictures import texts

from regard.tracing.focus import focus_on
from regard.views.picture.canvas import save_figure
from regard.views.picture.fonts import BASE, MISSING, Fonts, fonts_for, free_font
from regard.views.picture.trace import figure

KOREAN = "뱀은 독이 있다"


@pytest.fixture
def only_the_base_font(monkeypatch):
    """As on a machine that has no font but matplotlib's own."""
    monkeypatch.setattr(fontManager, "ttflist", [entry for entry in fontManager.ttflist if entry.name == BASE])


def test_english_needs_no_other_font():
    assert fonts_for("The snake, “naïve” … → × ₁ Ελλάδα Москва") == Fonts((BASE,))


def test_korean_is_drawn_or_the_font_to_install_is_named(handmade, tmp_path):
    trace = handmade(KOREAN)
    picture = figure(trace, focus_on(trace))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ending in (".png", ".svg", ".pdf"):
            save_figure(picture, tmp_path / f"a{ending}")
    written = texts(picture)
    fonts = fonts_for(KOREAN)
    assert set(map(fonts.drawable, KOREAN.split())) <= set(written)
    assert bool(fonts.missing) == any("install Noto Sans CJK KR" in text for text in written)


def test_without_a_korean_font_the_letters_are_boxes_and_the_caption_says_what_to_install(
    handmade, tmp_path, only_the_base_font
):
    trace = handmade(KOREAN)
    picture = figure(trace, focus_on(trace))
    save_figure(picture, tmp_path / "a.png")  # a warning of matplotlib's would be an error here
    written = texts(picture)
    assert MISSING * 2 in written
    fonts = fonts_for(KOREAN)
    assert fonts.missing == set(KOREAN) - {" "}
    first = ", ".join(f"U+{ord(letter):04X}" for letter in sorted(fonts.missing)[:3])
    assert fonts.advice == (
        f"□ stands for letters that no installed font has ({first} …); install Noto Sans CJK KR to see them."
    )
    assert fonts.advice in " ".join(written)


def test_each_script_names_its_font():
    assert [free_font(letter) for letter in "뱀かカ蛇กअ🐍⏎"] == [
        "Noto Sans CJK KR",
        "Noto Sans CJK JP",
        "Noto Sans CJK JP",
        "Noto Sans CJK SC",
        "Noto Sans Thai",
        "Noto Sans Devanagari",
        "Noto Emoji",
        "Noto Sans Symbols 2",
    ]


def test_one_missing_letter_is_one_line(only_the_base_font):
    advice = "□ stands for letters that no installed font has (U+BC40); install Noto Sans CJK KR to see them."
    assert fonts_for("a 뱀").advice == advice


def test_control_signs_are_seen_and_format_signs_are_left_out():
    fonts = fonts_for("a\u200b\u0007b\n")
    assert fonts.drawable("a\u200b\u0007b\n") == "a‹07›b⏎"
    assert fonts.advice == ""


def test_a_font_file_that_is_gone_is_passed_over(monkeypatch, tmp_path):
    lost = [entry for entry in fontManager.ttflist if entry.name == BASE]
    ghost = type(lost[0])(fname=str(tmp_path / "gone.ttf"), name="A Ghost", style="normal", weight=400)
    monkeypatch.setattr(fontManager, "ttflist", [*lost, ghost])
    assert fonts_for("뱀") == Fonts((BASE,), frozenset("뱀"))


def test_shortening_keeps_as_much_as_fits():
    fonts = Fonts((BASE,))
    short = fonts.shortened("interdisciplinarity", 10.0, 0.8)
    kept = short.removesuffix("…")
    assert "interdisciplinarity".startswith(kept)
    assert fonts.width(short, 10.0) <= 0.8 < fonts.width("interdisciplinarity"[: len(kept) + 1] + "…", 10.0)
    assert fonts.shortened("a", 10.0, 0.8) == "a"


def test_lines_hold_every_word_and_are_no_wider_than_told():
    fonts, text = Fonts((BASE,)), "rows look, columns are looked at, " * 5
    lines = fonts.lines(text, 9.0, 2.0)
    assert " ".join(lines) == text.strip()
    assert max(fonts.width(line, 9.0) for line in lines) <= 2.0
    assert len(lines) > 1
