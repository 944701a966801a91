"""Tests of the view of a token's movement in a browser: its norms and angles equal those of `Trace.movement`."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from axe import violations
from playwright.sync_api import Locator, Page, expect

import regard
from regard import Trace
from regard.tracing.model_loading import LoadedModel
from regard.translation.translator import Translator

TEXT = "The snake is very dangerous because it has a venom."


@pytest.fixture(scope="module")
def kept(minilm: LoadedModel) -> Trace:
    """A trace with its hidden vectors."""
    return regard.trace(minilm.model, TEXT, tokenizer=minilm.tokenizer, keep=("hidden",))


@pytest.fixture
def shown(opened: Callable[..., Page], kept: Trace, tmp_path: Path) -> Callable[..., Page]:
    """shown(width=360, dark=True) is the trace's page in the browser."""

    def show(**window: object) -> Page:
        page = opened(kept.html(tmp_path / "page.html", token="it", head="L3H1"), **window)
        expect(view(page).locator(".arrow")).not_to_have_count(0)
        return page

    return show


def view(page: Page) -> Locator:
    return page.locator("[data-view=movement]")


def parts(page: Page) -> dict[str, tuple[float, float]]:
    """The length and the angle of each part of the move that is shown."""
    shown_rows = view(page).locator("table.parts tbody tr")
    shown_rows.first.wait_for()
    rows = shown_rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    return {name: (float(length), float(angle.removesuffix("°") or 0)) for name, length, angle in rows}


def angle(vector: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(vector, other, dim=0).acos().rad2deg())


def test_the_parts_of_a_move_have_python_s_lengths_and_angles(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown()
    wanted = kept.movement("it")
    change = wanted.after[3] - wanted.before[3]
    seen = parts(page)
    assert len(seen) == 2 + 8 + 1 + 1 + 2  # both ends, heads, other heads, bias, feed-forward and norms
    for head in wanted.by_head[3].norm(dim=-1).argsort(descending=True)[:8].tolist():
        vector = wanted.by_head[3][head]
        assert seen[f"H{head}"] == pytest.approx((float(vector.norm()), angle(vector, change)), abs=0.06)
    rows = (("feed-forward", wanted.feed_forward[3]), ("norms", wanted.rest[3]))
    for name, vector in rows:
        assert seen[name] == pytest.approx((float(vector.norm()), angle(vector, change)), abs=0.06)
    ends = float(wanted.after[3].norm()), angle(wanted.before[3], wanted.after[3])
    assert seen["after"] == pytest.approx(ends, abs=0.06)
    assert seen["before"][0] == pytest.approx(float(wanted.before[3].norm()), abs=6e-4)
    view(page).get_by_role("button", name="source tokens").click()
    seen = parts(page)
    for source in wanted.by_source[3].norm(dim=-1).argsort(descending=True)[:8].tolist():
        vector = wanted.by_source[3][source]
        expected = float(vector.norm()), angle(vector, change)
        assert seen[kept.tokens[source].text] == pytest.approx(expected, abs=0.06)
    view(page).get_by_role("button", name="parts").click()
    assert parts(page)["attention"][0] == pytest.approx(float(wanted.attention[3].norm()), abs=6e-4)


def test_the_table_has_every_layer_and_the_caption_the_share(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown()
    wanted = kept.movement("it")
    view(page).locator(".numbers summary").click()
    shown_rows = view(page).locator(".numbers tbody tr")
    shown_rows.first.wait_for()  # the table is made when it is opened
    rows = shown_rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    assert [row[0] for row in rows] == [f"L{layer}" for layer in range(6)]
    for row in rows:
        layer = int(row[0][1:])
        vectors = [getattr(wanted, name)[layer] for name in ("before", "attention", "feed_forward", "rest", "after")]
        assert [float(cell) for cell in row[1:6]] == pytest.approx([float(v.norm()) for v in vectors], abs=1e-3)
        assert float(row[6]) == pytest.approx(angle(vectors[0], vectors[4]), abs=0.02)
    states = kept.states["encoder"]
    every = torch.cat([states[0].before, *(state.after for state in states.values())]).double()
    sizes = torch.linalg.svdvals(every - every.mean(dim=0)).square()
    first, second = (100 * sizes[:2] / sizes.sum()).tolist()
    expect(view(page).locator(".caption").first).to_contain_text(f"it shows {first:.1f} % + {second:.1f} % of their")


def test_the_token_and_the_layer_are_those_of_the_other_views(shown: Callable[..., Page], kept: Trace) -> None:
    page = shown()
    view(page).get_by_role("button", name="L5", exact=True).click()
    expect(page.locator("[data-view=sentence] h2")).to_have_text("L5H1 · it")
    page.locator("[data-view=sentence] .word", has_text="venom").click()
    expect(view(page).locator("h2")).to_have_text("How the token’s vector moves · L5 · venom")
    after = kept.states["encoder"][5].after
    cosines = torch.nn.functional.cosine_similarity(after, after[10][None]).clone()
    cosines[10] = -1
    nearest = int(cosines.argmax())
    degrees = float(cosines[nearest].acos().rad2deg())
    expect(view(page).locator(".nearest")).to_contain_text(
        f"Nearest tokens after L5: {kept.tokens[nearest].text} {degrees:.1f}°"
    )
    page.get_by_role("button", name="all tokens").click()
    expect(view(page)).to_contain_text("Choose a token")


def test_a_trace_without_hidden_vectors_has_no_such_view(
    opened: Callable[..., Page], snake: Trace, tmp_path: Path
) -> None:
    page = opened(snake.html(tmp_path / "page.html"))
    expect(page.locator(".top li")).not_to_have_count(0)
    expect(view(page)).to_have_count(0)


def test_axe_finds_nothing_and_it_fits_a_narrow_window(shown: Callable[..., Page]) -> None:
    page = shown(width=360)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    view(page).locator(".numbers summary").click()
    assert violations(page, "[data-view=movement]") == []


def test_it_is_saved_as_a_picture(shown: Callable[..., Page]) -> None:
    page = shown()
    for ending in ("svg", "png"):
        view(page).locator("details.save summary").click()
        with page.expect_download() as download:
            view(page).locator("details.save").get_by_role("button", name=ending.upper()).click()
        assert download.value.suggested_filename == f"regard-movement-L3H1.{ending}"


def test_the_tokens_of_a_translator_move(opened: Callable[..., Page], translator: Translator, tmp_path: Path) -> None:
    translation = translator.translate(["the cat sat on a mat"])[0]
    page = opened(translation.html(tmp_path / "page.html", head="cross L1H1"))
    expect(view(page)).to_contain_text("Cross-attention is a part of the decoder’s layers.")
    kept = translator.trace(translation, keep=("hidden",))
    for kind, rest in (("encoder", None), ("decoder", "cross-attention, norms")):
        page.get_by_label("Attention", exact=True).select_option("cross")
        view(page).get_by_role("button", name=kind, exact=True).click()
        page.locator("[data-view=sentence] .word").nth(2).click()
        expect(view(page).locator("h2")).to_contain_text("L1")
        wanted = kept.movement(2, kind=kind)
        change = wanted.after[1] - wanted.before[1]
        vectors = {
            "H0": wanted.by_head[1, 0],
            "H1": wanted.by_head[1, 1],
            "feed-forward": wanted.feed_forward[1],
        } | ({rest: wanted.rest[1]} if rest else {})
        seen = parts(page)
        assert set(seen) == {*vectors, "output bias", "before", "after"}
        for name, vector in vectors.items():
            assert seen[name] == pytest.approx((float(vector.norm()), angle(vector, change)), abs=0.06)
        assert seen["after"][0] == pytest.approx(float(wanted.after[1].norm()), abs=1e-3)
