"""Labels in any script: fonts that have the letters, else a box and the name of the font to install."""

import warnings
from dataclasses import replace

import pytest
from matplotlib._text_helpers import layout
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from pictures import readable, texts

from regard.tracing.focus import focus_on
from regard.views.picture import fonts as fonts_module
from regard.views.picture.canvas import save_figure
from regard.views.picture.fonts import BASE, MISSING, OWN_FONT, OWN_FONT_FILE, Fonts, fonts_for, free_font, quoted
from regard.views.picture.trace import figure

KOREAN, HINDI = "뱀은 독이 있다", "साँप बहुत"


@pytest.fixture
def only_the_base_font(monkeypatch):
    """Hide all fonts but Matplotlib's own."""
    monkeypatch.setattr(fontManager, "ttflist", [entry for entry in fontManager.ttflist if entry.name == BASE])
    monkeypatch.setattr(fonts_module, "findSystemFonts", list)


def test_english_needs_no_other_font():
    assert fonts_for("The snake, “naïve” … → × ₁ Ελλάδα Москва") == Fonts((BASE,))


@pytest.mark.parametrize("text", [KOREAN, "똠방각하 뷁", "とても カタカナ 危険", "很危险，有毒"])
def test_korean_japanese_and_chinese_are_drawn_where_no_font_is_installed(handmade, tmp_path, only_the_base_font, text):
    trace = handmade(text)
    fonts = fonts_for(text)
    assert (fonts.family, fonts.missing) == ((BASE, OWN_FONT), frozenset())
    picture = figure(trace, focus_on(trace))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of a letter without a glyph
        for ending in (".png", ".svg", ".pdf"):
            save_figure(picture, tmp_path / f"a{ending}")
    assert set(text.split()) <= set(texts(picture))


def test_regards_font_has_every_hangul_syllable_and_kana():
    letters = {chr(code) for code in (*range(0xAC00, 0xD7A4), *range(0x3041, 0x3097), *range(0x30A1, 0x30FB))}
    assert fonts_module.letters_in_file(str(OWN_FONT_FILE), letters) == letters


def test_an_installed_font_of_the_script_comes_before_regards(monkeypatch, only_the_base_font):
    fonts_module.add_own_font()
    installed = replace(fontManager.ttflist[-1], name="Noto Sans CJK KR", weight=400)
    monkeypatch.setattr(fontManager, "ttflist", [*fontManager.ttflist, installed])
    assert fonts_for("뱀").family == (BASE, "Noto Sans CJK KR")


def test_regards_font_comes_before_other_fonts_for_hiragana_with_katakana(monkeypatch, only_the_base_font):
    fonts_module.add_own_font()
    other = replace(fontManager.ttflist[-1], name="A font of no script", weight=400)
    monkeypatch.setattr(fontManager, "ttflist", [*fontManager.ttflist, other])
    assert fonts_for("へビ").family == (BASE, OWN_FONT)


def test_a_font_installed_after_matplotlib_made_its_list_is_found(monkeypatch, only_the_base_font):
    monkeypatch.setattr(fonts_module, "add_own_font", lambda: None)
    assert fonts_for("뱀").missing == {"뱀"}
    monkeypatch.setattr(fonts_module, "findSystemFonts", lambda: [str(OWN_FONT_FILE)])
    assert fonts_for("뱀") == Fonts((BASE, OWN_FONT))


def test_letters_that_no_font_has_are_boxes_and_the_caption_says_what_to_install(
    handmade, tmp_path, only_the_base_font
):
    trace = handmade(HINDI)
    picture = figure(trace, focus_on(trace))
    save_figure(picture, tmp_path / "a.png")  # a warning of matplotlib's would be an error here
    written = texts(picture)
    assert MISSING * 4 in written
    fonts = fonts_for(HINDI)
    assert fonts.missing == set(HINDI) - {" "}
    first = ", ".join(f"U+{ord(letter):04X}" for letter in sorted(fonts.missing)[:3])
    assert fonts.advice == (
        f"□ stands for letters that no installed font has ({first} …); install Noto Sans Devanagari to see them."
    )
    assert fonts.advice in " ".join(written)


@pytest.mark.parametrize(("query", "key"), [("سما", "جدا"), ("ארס", "מסוכן")])
def test_a_sentence_about_arabic_or_hebrew_words_keeps_its_order(query, key):
    """The whole sentence is laid out from left to right, so the query's letters come first and the weight last."""
    fonts = Fonts((BASE,))
    sentence = f"{quoted(query)} looks most at {quoted(key)} (0.993)"
    font = get_font(findfont(FontProperties(family=BASE)))
    drawn = "".join(item.char for item in layout(fonts.drawable(sentence), font))
    assert readable(drawn) == f"“{query[::-1]}” looks most at “{key[::-1]}” (0.993)"


def test_each_script_names_its_font():
    names = ["Sans CJK KR", "Sans CJK JP", "Sans CJK JP", "Sans CJK SC"]
    names += ["Sans Thai", "Sans Devanagari", "Emoji", "Sans Symbols 2"]
    assert [free_font(letter) for letter in "뱀かカ蛇กअ🐍⏎"] == [f"Noto {name}" for name in names]


def test_one_missing_letter_is_one_line(only_the_base_font):
    advice = "□ stands for letters that no installed font has (U+0938); install Noto Sans Devanagari to see them."
    assert fonts_for("a स").advice == advice


def test_control_signs_are_seen_and_format_signs_are_left_out():
    fonts = fonts_for("a\u200b\u0007b\n")
    assert fonts.drawable("a\u200b\u0007b\n") == "a‹07›b⏎"
    assert fonts.advice == ""


def test_a_font_file_that_is_gone_is_passed_over(monkeypatch, tmp_path):
    lost = [entry for entry in fontManager.ttflist if entry.name == BASE]
    ghost = type(lost[0])(fname=str(tmp_path / "gone.ttf"), name="A Ghost", style="normal", weight=400)
    monkeypatch.setattr(fontManager, "ttflist", [*lost, ghost])
    monkeypatch.setattr(fonts_module, "findSystemFonts", list)
    assert fonts_for("स") == Fonts((BASE,), frozenset("स"))


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
