"""The view of a translation's alignment in a real browser: its numbers are the translator's."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from axe import violations
from playwright.sync_api import Locator, Page, expect

from regard.translation.alignment_rule import AlignmentRule
from regard.translation.search.beam import Beam
from regard.translation.translation import Translation
from regard.translation.translator import Translator

TEXT = "the cat sat on a mat"


@pytest.fixture
def translation(translator: Translator) -> Translation:
    """A translation with three candidates, aligned by one head at the step that reads a piece."""
    ruled = replace(translator, alignment_rule=AlignmentRule(layer=2, head=1, step="reads", agreement=0.875))
    return ruled.translate([TEXT], search=Beam(n_best=3))[0]


@pytest.fixture
def shown(opened: Callable[..., Page], translation: Translation, tmp_path: Path) -> Callable[..., Page]:
    """shown(width=360, dark=True) is the translation's page in the browser."""

    def show(**window: object) -> Page:
        page = opened(translation.html(tmp_path / "page.html"), **window)
        expect(view(page).locator(".arcs path")).not_to_have_count(0)
        return page

    return show


def view(page: Page) -> Locator:
    return page.locator("[data-view=alignment]")


def table(page: Page) -> list[list[str]]:
    """The rows of the view's table of numbers."""
    details = view(page).locator(".numbers")
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    rows = details.locator("tbody tr")
    rows.first.wait_for()  # the table is made when it is opened
    return rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")


def unit(page: Page, side: str, text: str) -> Locator:
    words = view(page).locator(f".word[data-side={side}]")
    return words.filter(has=page.get_by_text(text, exact=True)).first


def test_the_weights_of_words_and_of_pieces_are_python_s(shown: Callable[..., Page], translation: Translation) -> None:
    page = shown()
    wanted = translation.alignment
    rows = table(page)
    assert [row[0] for row in rows] == translation.text.split()
    shown_weights = torch.tensor([[float(cell) for cell in row[1:]] for row in rows])
    torch.testing.assert_close(shown_weights, wanted.weights, atol=6e-6, rtol=0)
    view(page).get_by_role("button", name="pieces").click()
    rows = table(page)
    assert [row[0] for row in rows] == [piece.replace("▁", "") or "␣" for piece in wanted.target_pieces]
    shown_weights = torch.tensor([[float(cell) for cell in row[1:]] for row in rows])
    torch.testing.assert_close(shown_weights, wanted.piece_weights, atol=6e-6, rtol=0)
    view(page).get_by_role("button", name="matrix").click()
    cells = view(page).locator("table.matrix tbody td").all_inner_texts()
    assert [float(cell or 0) for cell in cells] == pytest.approx(wanted.piece_weights.flatten().tolist(), abs=0.0051)


def test_a_word_shows_the_words_that_it_is_aligned_with(shown: Callable[..., Page], translation: Translation) -> None:
    page = shown()
    weights = translation.alignment.weights
    unit(page, "target", "katze").hover()
    row = weights[translation.alignment.target_words.index("katze")]
    best = int(row.argmax())
    expect(view(page).locator(".caption").first).to_have_text(
        f"“katze” is aligned most with “{TEXT.split()[best]}” ({float(row[best]):.4f})"
    )
    written = view(page).locator(".word[data-side=source] small").all_inner_texts()
    assert [float(text) for text in written] == pytest.approx([w for w in row.tolist() if w >= 0.005], abs=0.0051)
    widths = view(page).locator(".arcs path").evaluate_all("all => all.map(one => +one.getAttribute('stroke-width'))")
    assert widths == pytest.approx([max(0.5, 9 * w) for w in row.tolist() if w >= 0.02], abs=1e-4)
    unit(page, "source", "mat").click()
    column = weights[:, 5]
    expect(view(page).locator(".caption").first).to_have_text(
        f"“mat” is aligned most with “{translation.text.split()[int(column.argmax())]}” ({float(column.max()):.4f})"
    )


def test_the_candidates_have_their_scores_and_their_own_alignments(
    shown: Callable[..., Page], translation: Translation
) -> None:
    page = shown()
    rows = view(page).locator("table.candidates tbody tr")
    expect(rows).to_have_count(3)
    wanted = [
        [one.text, *(f"{number:.4f}".replace("-", "−") for number in (one.score, one.log_probability))]
        for one in translation.candidates
    ]
    assert rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))") == wanted
    rows.nth(2).get_by_role("button").click()
    expect(rows.nth(2).get_by_role("button")).to_have_attribute("aria-pressed", "true")
    other = translation.candidates[2]
    shown_rows = table(page)
    assert [row[0] for row in shown_rows] == other.text.split()
    shown_weights = torch.tensor([[float(cell) for cell in row[1:]] for row in shown_rows])
    torch.testing.assert_close(shown_weights, other.alignment.weights, atol=6e-6, rtol=0)
    page.wait_for_function("() => location.hash.includes('candidate=2')")


def test_the_address_restores_the_candidate(shown: Callable[..., Page], translation: Translation) -> None:
    page = shown(address="#candidate=1")
    chosen = view(page).locator("table.candidates button[aria-pressed=true]")
    expect(chosen).to_have_text(translation.candidates[1].text)


def test_the_rule_is_named_and_its_weights_are_shown_elsewhere(
    shown: Callable[..., Page], translation: Translation
) -> None:
    page = shown(address="#kind=encoder&head=L0H0&query=all")
    expect(view(page).locator(".rule")).to_contain_text(
        "The weights are those of cross-attention in layer 2, head 1, at the decoder step that reads the piece; "
        "for 88 % of the pieces measured, the largest weight is on the source word without which the model predicts "
        "the piece worst."
    )
    view(page).get_by_role("button", name="show these weights in the other views").click()
    view(page).get_by_role("button", name="pieces").click()
    pieces = translation.alignment.target_pieces
    view(page).locator(".word[data-side=target]").nth(2).click()
    sentence = page.locator("[data-view=sentence]")
    expect(sentence.locator("h2")).to_have_text(f"L2H1 · {pieces[2].replace('▁', '')}")
    sentence.locator(".numbers summary").click()
    weights, cells = translation.alignment.piece_weights[2].tolist(), sentence.locator(".numbers td")
    expect(cells).to_have_count(len(weights))
    assert [float(text) for text in cells.all_inner_texts()] == pytest.approx(weights, abs=2e-5)
    sentence.locator(".word[data-side=query]").nth(4).hover()  # the second is kept, so that the third is not chosen
    expect(view(page).locator("[aria-selected=true]")).to_have_text(pieces[2].replace("▁", ""))


def test_the_keyboard_moves_along_a_line(shown: Callable[..., Page], translation: Translation) -> None:
    page = shown()
    view(page).get_by_role("listbox", name="translation").focus()
    page.keyboard.press("Home")
    expect(view(page).locator("[aria-selected=true] bdi")).to_have_text(translation.text.split()[0])
    page.keyboard.press("ArrowRight")
    expect(view(page).locator("[aria-selected=true] bdi")).to_have_text(translation.text.split()[1])


def test_axe_finds_nothing_and_it_fits_a_narrow_window(shown: Callable[..., Page]) -> None:
    page = shown(width=360)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    table(page)
    for drawn in ("lines", "matrix"):
        view(page).get_by_role("button", name=drawn).click()
        assert violations(page, "[data-view=alignment]") == []


def test_it_is_saved_as_a_picture(shown: Callable[..., Page]) -> None:
    page = shown()
    view(page).locator("details.save summary").click()
    with page.expect_download() as download:
        view(page).locator("details.save").get_by_role("button", name="SVG").click()
    assert download.value.suggested_filename.startswith("regard-alignment-")
