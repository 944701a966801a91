"""A site of a translator in a real browser: its translations, scores, alignments and weights are Python's."""

import json
import shutil
from pathlib import Path

import pytest
from axe import violations
from movement_shown import check_movement
from output_steps import check_output
from page_views import table, view, weights
from playwright.sync_api import Locator, Page, expect
from site_texts import TEXTS
from site_worker import answers, check_alignment

from regard.site import folder as folders
from regard.site import write_site
from regard.site.exported import Exported
from regard.tracing.focus import focus_on
from regard.translation.request import read_requests
from regard.translation.search.beam import Beam
from regard.translation.translation import Translation
from regard.translation.translator import Translator
from regard.views.page.data import page_data

pytestmark = pytest.mark.slow

PATIENCE = 60_000
"""The milliseconds that loading the model may take."""

SENTENCES = [
    "the cat sat on a mat.",
    "a  dog\tran — 뱀은 독이",
    "الثعبان <s> خطير 👍🏽",
    "...",
    "the snake",
    "a thumb ran",
    "a 12,345 cat 뱀 독",
    "1234 ran",
    "뱀 ran",
]
"""Sentences with known words, names and numbers that signs replace, unknown letters, and nothing but punctuation."""

PARTS = ("text", "target_text", "source", "target", "model", "focus", "alignment")
"""The parts of a trace that are compared with Python's."""


@pytest.fixture(scope="module")
def python(byte_translator: Path) -> Translator:
    """The translator in Python."""
    return Translator.load(byte_translator, device="cpu")


@pytest.fixture
def page(tab: Page, translating) -> Page:
    """The site's page, just opened, in English."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.emulate_media(color_scheme="light")
    tab.goto("about:blank")
    tab.goto(translating.address)
    expect(alignment(tab).locator(".arcs path")).not_to_have_count(0)
    return tab


def alignment(page: Page) -> Locator:
    return view(page, "alignment")


def translated(python: Translator, text: str) -> Translation:
    return python.translate([text], search=Beam(n_best=Beam().size))[0]


def test_translations_scores_and_alignments_are_python_s(page: Page, translating, python: Translator) -> None:
    texts = [*SENTENCES, *(text[:12] for text in TEXTS[3:9])]
    site = json.loads(page.locator("#site").text_content() or "")
    found = answers(page, translating.address, texts, (*PARTS, "reason", "tokens"), kind="cross", layer=1, head=3)
    vocabularies = python.source_vocabulary, python.target_vocabulary
    bytes_written = 0
    for text, answer in zip(texts, found, strict=True):
        (request,) = read_requests([text], [""], *vocabularies, python.placeholders, python._most_pieces)
        n_pieces = len(request.ids) - 1 + request.left_out
        if n_pieces > site["models"][0]["max_tokens"]:
            assert answer == {"reason": "long", "tokens": n_pieces}, ascii(text)
            continue
        translation = translated(python, text)
        exact = page_data(translation.trace, focus_on(translation.trace, head="L1H3"), translation.page_record())
        for name in PARTS[:-1]:
            assert answer[name] == exact[name], (name, ascii(text))
        check_alignment(answer["alignment"], exact["alignment"], ascii(text))
        bytes_written += sum("‹" in token["text"] for token in answer["target"])
    assert bytes_written > 5  # letters that are written byte by byte, some of them no letters


def test_a_typed_sentence_is_translated_and_every_view_has_python_s_weights(page: Page, python: Translator) -> None:
    text = "no cat ran to a dog"
    page.get_by_label("Text").fill(text)
    exact = translated(python, text)
    expect(alignment(page).locator(".word[data-side=source] bdi").last).to_have_text("dog", timeout=PATIENCE)
    rows = alignment(page).locator(".candidates tbody tr")
    assert rows.locator("button").all_inner_texts() == [one.text or "∅" for one in exact.candidates]
    scores = [float(cell.replace("−", "-")) for cell in rows.locator("td").all_inner_texts()]
    flat = [number for one in exact.candidates for number in (one.score, one.log_probability)]
    assert scores == pytest.approx(flat, abs=1e-4)
    shown = [[float(cell) for cell in row[1:]] for row in table(page, "alignment")]
    for row, exact_row in zip(shown, exact.alignment.weights.tolist(), strict=True):
        assert row == pytest.approx(exact_row, abs=1e-4)
    for kind, head in (("encoder", "L0H3"), ("decoder", "L1H1"), ("cross", "L0H2")):
        page.get_by_label("Attention", exact=True).select_option(kind)
        page.get_by_label("Layer", exact=True).select_option(head[1])
        page.get_by_label("Head", exact=True).select_option(head[3])
        view(page, "sentence").locator("[role=option]").nth(2).click()
        assert weights(page) == pytest.approx(exact.trace[f"{kind} {head}"].row(2).tolist(), abs=1e-4)
        page.keyboard.press("Escape")


def test_what_a_head_adds_is_that_of_python(tab: Page, translating, python: Translator) -> None:
    check_output(tab, translating.address, translated(python, "the snake").page_trace, "cross L1H2")


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_token_moves_as_in_python(tab: Page, translating, python: Translator, kind: str) -> None:
    check_movement(tab, translating.address, translated(python, "the snake").page_trace, kind, token=1)


def test_hovering_a_word_shows_its_weights_and_an_alternative_is_aligned_too(page: Page, python: Translator) -> None:
    page.get_by_label("Text").fill("a dog sat")
    expect(alignment(page).locator(".word[data-side=source]")).to_have_count(3, timeout=PATIENCE)
    exact = translated(python, "a dog sat").candidates[1]
    alignment(page).locator(".candidates tbody button").nth(1).click()
    words = alignment(page).locator(".word[data-side=target]")
    assert words.locator("bdi").all_inner_texts() == list(exact.alignment.target_words)
    words.first.hover()
    weights = exact.alignment.weights[0].tolist()
    shown = alignment(page).locator(".word[data-side=source] small").all_inner_texts()
    assert [float(text) for text in shown] == pytest.approx([one for one in weights if one >= 0.005], abs=0.006)


def test_arabic_words_do_not_reverse_the_sentence_that_names_them(page: Page) -> None:
    page.get_by_label("Text").fill("الثعبان")
    words = alignment(page).locator(".word[data-side=source]")
    expect(words).to_have_count(1, timeout=PATIENCE)
    words.hover()
    expect(alignment(page).locator(".caption").first).to_contain_text("“\u2068الثعبان\u2069” is aligned most with")


def test_what_cannot_be_translated_is_said(page: Page) -> None:
    page.get_by_label("Text").fill("\u0001 \ufeff")
    page.get_by_role("button", name="translate").click()
    alert = page.locator("[role=alert]")
    expect(alert).to_have_text("The text is empty; type at least one word.", timeout=PATIENCE)
    page.get_by_label("Text").fill("mat " * 40)
    page.get_by_role("button", name="translate").click()
    expect(alert).to_contain_text("tokens long and the model reads at most 39; shorten it.")
    page.get_by_label("Text").evaluate(
        "field => { field.value = 'a \\ud800 b'; field.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    page.get_by_role("button", name="translate").click()
    expect(alert).to_have_text(
        "The text has half of a character (a lone surrogate), which no model can read; remove it."
    )
    assert view(page, "what-if").get_by_role("button", name="run the model with these changes").count() == 0


def test_a_model_and_a_translator_share_a_site(
    tab: Page, served, translating, byte_translator: Path, serve_folder, tmp_path: Path, monkeypatch
) -> None:
    """The graphs are those of the two sites of one model."""

    def export_again(site):
        def export(model: object, text: str, folder: Path, int8: bool = False) -> Exported:
            for name in site.site.models[0].files.values():
                shutil.copy(site.folder / name, folder)
            return site.site.models[0]

        return export

    monkeypatch.setattr(folders, "export_text_model", export_again(served))
    monkeypatch.setattr(folders, "export_translator", export_again(translating))
    written = write_site(tmp_path / "site", "MiniLM", translator=byte_translator, course=False)
    tab.goto(serve_folder(tmp_path / "site"))
    expect(tab.locator("[data-view=sentence] .word")).to_have_count(13)
    assert alignment(tab).count() == 0
    precision = tab.locator(".precision")
    first, second = (f"{model.difference.weights:.1e}".replace("e-0", "e-") for model in written.models)
    expect(precision).to_contain_text(f"by more than {first}.")
    tab.get_by_label("Text").fill("the cat sat on a mat")  # the first text is too long for the translator
    expect(tab.locator("[data-view=sentence] .word")).to_have_count(8, timeout=PATIENCE)
    tab.get_by_label("Model").select_option("en-de")
    expect(alignment(tab).locator(".candidates tbody tr")).to_have_count(5, timeout=PATIENCE)
    expect(precision).to_contain_text(f"by more than {second}.")
    tab.get_by_label("Model").select_option("small")
    expect(alignment(tab)).to_have_count(0, timeout=PATIENCE)
    expect(tab.locator("[data-view=sentence] .word")).to_have_count(8)


def test_axe_finds_nothing_and_the_page_fits_a_narrow_window(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    page.get_by_label("Text").fill("the cat ran")
    expect(alignment(page).locator(".word[data-side=source]")).to_have_count(3, timeout=PATIENCE)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    for name in ("alignment", "sentence"):
        table(page, name)
    assert violations(page) == []
