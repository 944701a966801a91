"""The view of a translation's alignment in a real browser: its numbers are the translator's."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from axe import violations
from page_views import cells, numbers, saved, table, view
from playwright.sync_api import Locator, Page, expect

from regard.translation.alignment_rule import AlignmentRule
from regard.translation.search.beam import Beam
from regard.translation.translation import Translation
from regard.translation.translator import Translator

TEXT = "the cat sat on a mat"


@pytest.fixture(scope="module")
def translation(translator: Translator) -> Translation:
    """A translation with three candidates, aligned by one head at the step that reads a piece."""
    ruled = replace(translator, alignment_rule=AlignmentRule(layer=2, head=1, step="reads", agreement=0.875))
    return ruled.translate([TEXT], search=Beam(n_best=3))[0]


@pytest.fixture(scope="module")
def written(translation: Translation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return translation.html(tmp_path_factory.mktemp("alignment") / "page.html")


@pytest.fixture
def page(opened: Callable[..., Page], written: Path) -> Page:
    shown = opened(written)
    expect(alignment(shown).locator(".arcs path")).not_to_have_count(0)
    return shown


def alignment(page: Page) -> Locator:
    return view(page, "alignment")


def unit(page: Page, side: str, text: str) -> Locator:
    words = alignment(page).locator(f".word[data-side={side}]")
    return words.filter(has=page.get_by_text(text, exact=True)).first


def check_table(page: Page, names: list[str], weights: torch.Tensor) -> None:
    rows = table(page, "alignment")
    assert [row[0] for row in rows] == names
    shown = torch.tensor([numbers(row[1:]) for row in rows])
    torch.testing.assert_close(shown, weights, atol=6e-6, rtol=0)


def test_the_weights_of_words_and_pieces_and_of_all_candidates_are_python_s(
    page: Page, translation: Translation
) -> None:
    wanted = translation.alignment
    check_table(page, translation.text.split(), wanted.weights)
    alignment(page).get_by_role("button", name="pieces").click()
    check_table(page, [piece.replace("▁", "") or "␣" for piece in wanted.target_pieces], wanted.piece_weights)
    alignment(page).get_by_role("button", name="matrix").click()
    shown = alignment(page).locator("table.matrix tbody td").all_inner_texts()
    flat = wanted.piece_weights.flatten().tolist()
    assert [float(cell or 0) for cell in shown] == pytest.approx(flat, abs=0.0051)
    alignment(page).get_by_role("button", name="words").click()
    rows = alignment(page).locator("table.candidates tbody tr")
    assert cells(rows) == [
        [one.text, *(f"{number:.4f}".replace("-", "−") for number in (one.score, one.log_probability))]
        for one in translation.candidates
    ]
    assert len(translation.candidates) == 3
    rows.nth(2).get_by_role("button").click()
    expect(rows.nth(2).get_by_role("button")).to_have_attribute("aria-pressed", "true")
    other = translation.candidates[2]
    check_table(page, other.text.split(), other.alignment.weights)
    page.wait_for_function("() => location.hash.includes('candidate=2')")


def test_a_word_shows_the_words_that_it_is_aligned_with(page: Page, translation: Translation, tmp_path: Path) -> None:
    weights, caption = translation.alignment.weights, alignment(page).locator(".caption").first
    unit(page, "target", "katze").hover()
    row = weights[translation.alignment.target_words.index("katze")]
    best = int(row.argmax())
    expect(caption).to_have_text(f"“katze” is aligned most with “{TEXT.split()[best]}” ({float(row[best]):.4f})")
    shown = alignment(page).locator(".word[data-side=source] small").all_inner_texts()
    assert numbers(shown) == pytest.approx([w for w in row.tolist() if w >= 0.005], abs=0.0051)
    widths = (
        alignment(page).locator(".arcs path").evaluate_all("all => all.map(one => +one.getAttribute('stroke-width'))")
    )
    assert widths == pytest.approx([max(0.5, 9 * w) for w in row.tolist() if w >= 0.02], abs=1e-4)
    unit(page, "source", "mat").click()
    column = weights[:, 5]
    strongest = translation.text.split()[int(column.argmax())]
    expect(caption).to_have_text(f"“mat” is aligned most with “{strongest}” ({float(column.max()):.4f})")
    chosen = alignment(page).locator("[aria-selected=true] bdi")
    alignment(page).get_by_role("listbox", name="translation").focus()
    page.mouse.move(0, 0)
    for key, word in zip(("Home", "ArrowRight"), translation.text.split()[:2], strict=True):
        page.keyboard.press(key)
        expect(chosen).to_have_text(word)
    assert saved(page, "alignment", "svg", tmp_path).name.startswith("regard-alignment-")


def test_the_rule_is_named_and_its_weights_are_shown_elsewhere(
    opened: Callable[..., Page], written: Path, translation: Translation
) -> None:
    page = opened(written, address="#kind=encoder&head=L0H0&query=all&candidate=1")
    rows = alignment(page).locator("table.candidates button")
    expect(rows.and_(page.locator("[aria-pressed=true]"))).to_have_text(translation.candidates[1].text)
    rows.first.click()
    expect(alignment(page).locator(".rule")).to_contain_text(
        "The weights are those of cross-attention in layer 2, head 1, at the decoder step that reads the piece; "
        "for 88 % of the pieces measured, the largest weight is on the source word without which the model predicts "
        "the piece worst."
    )
    alignment(page).get_by_role("button", name="show these weights in the other views").click()
    alignment(page).get_by_role("button", name="pieces").click()
    pieces = translation.alignment.target_pieces
    alignment(page).locator(".word[data-side=target]").nth(2).click()
    sentence = view(page, "sentence")
    expect(sentence.locator("h2")).to_have_text(f"L2H1 · {pieces[2].replace('▁', '')}")
    weights = [float(row[1]) for row in table(page, "sentence")]
    assert weights == pytest.approx(translation.alignment.piece_weights[2].tolist(), abs=2e-5)
    sentence.locator(".word[data-side=query]").nth(4).hover()  # the second is kept, so that the third is not chosen
    expect(alignment(page).locator("[aria-selected=true]")).to_have_text(pieces[2].replace("▁", ""))


def test_axe_finds_nothing_and_it_fits_a_narrow_window(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 900})
    page.wait_for_function("() => document.documentElement.scrollWidth === 360")
    table(page, "alignment")
    for drawn in ("lines", "matrix"):
        alignment(page).get_by_role("button", name=drawn).click()
        assert violations(page, "[data-view=alignment]") == []


def test_the_page_warns_of_unknown_characters_and_of_an_unreliable_alignment(
    opened: Callable[..., Page], page: Page, translator: Translator, tmp_path: Path
) -> None:
    rule = view(page, "alignment").locator(".rule")
    expect(rule).not_to_contain_text("unreliable")
    expect(alignment(page).locator(".note")).to_have_count(0)
    ruled = replace(translator, alignment_rule=AlignmentRule(layer=2, head=1, agreement=0.45))
    unknown = opened(ruled.translate(["the cat 뷁쀍 sat 뷁"])[0].html(tmp_path / "unknown.html"))
    expect(rule).to_contain_text("The alignments are unreliable.")
    expect(alignment(unknown).locator(".note")).to_contain_text("뷁, 쀍.")
    by_erasure = replace(translator, alignment_rule=AlignmentRule(layer=2, head=1, agreement=0.45, by="erasure"))
    opened(by_erasure.translate(["the cat sat"])[0].html(tmp_path / "erasure.html"))
    expect(rule).to_contain_text("how much less probable the piece is")
    expect(rule).not_to_contain_text("unreliable")
    expect(rule.get_by_role("button")).to_have_count(0)
