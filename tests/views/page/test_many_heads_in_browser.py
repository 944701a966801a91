"""The map of very many heads in a real browser: 30 layers of 24 heads on a canvas, and the strongest in a list."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from regard import Causal, Trace
from regard.tracing.focus import strongest_other_words

LAYERS, HEADS = 30, 24


@pytest.fixture(scope="module")
def many(handmade: Callable[..., Trace]) -> Trace:
    """A trace of 720 heads."""
    return handmade("a b c d e f g", n_layers=LAYERS, n_heads=HEADS, mask=Causal(), kind="decoder")


@pytest.fixture
def page(opened: Callable[..., Page], many: Trace, tmp_path: Path) -> Page:
    """The page of a trace of 720 heads."""
    shown = opened(many.html(tmp_path / "page.html", token="f", head="L2H3"))
    expect(shown.locator(".top li")).not_to_have_count(0)
    return shown


def view(page: Page) -> Locator:
    return page.locator("[data-view=heads]")


def cell_size(page: Page) -> float:
    """The size of a cell: the inner width of the scrolled map, without the names, over the number of heads."""
    return (float(view(page).locator(".heads-canvas > div").evaluate("one => one.clientWidth")) - 34) / HEADS


def test_a_head_on_the_canvas_is_read_and_chosen(page: Page, many: Trace) -> None:
    wanted = {head.name: (head.keys[key].text, weight) for head, key, weight in strongest_other_words(many.heads(), 5)}
    expect(view(page).locator(".map button")).to_have_count(0)
    canvas, size = view(page).locator("canvas"), cell_size(page)
    canvas.scroll_into_view_if_needed()
    to, weight = wanted["L4H17"]
    readout = view(page).locator(".readout")
    place = {"x": 34 + 17.5 * size, "y": 18 + 4.5 * size}
    canvas.hover(position=place)
    expect(readout).to_contain_text("L4H17")
    page.wait_for_timeout(1500)  # every head is computed
    canvas.hover(position={"x": place["x"] + 1, "y": place["y"]})
    expect(readout).to_have_text(f"L4H17: f → {to} {weight:.4f}")
    canvas.click(position=place)
    expect(page.locator("[data-view=sentence] h2")).to_have_text("L4H17 · f")


def test_the_strongest_of_many_heads_are_listed(page: Page, many: Trace) -> None:
    wanted = strongest_other_words(many.heads(), 5)
    view(page).get_by_label("Sort by").select_option("token")
    first = view(page).locator("figure").first
    expect(first).to_contain_text(f"{wanted[0][0].name}{wanted[0][2]:.4f}")
    expect(view(page).locator("figure")).to_have_count(120)
    expect(view(page)).to_contain_text("the first 120 of 720 heads")
    names = "[...document.querySelectorAll('figcaption')].map((one) => one.innerText.split('\\n')[0]).join()"
    in_order = ",".join(head.name for head, _, _ in wanted[:120])
    page.wait_for_function(f"wanted => wanted === {names}", arg=in_order)  # until every head is computed
    view(page).locator(".numbers summary").click()
    rows = view(page).locator(".numbers tbody tr")
    expect(rows).to_have_count(600)
    expect(rows.first).to_contain_text(f"{wanted[0][2]:.5f}")


def test_patterns_of_many_heads_are_drawn(page: Page) -> None:
    view(page).get_by_role("button", name="patterns").click()
    page.wait_for_timeout(1500)
    coloured = """canvas => {
        const data = canvas.getContext("2d").getImageData(60, 40, 400, 300).data;
        const range = (pixel) => Math.max(...pixel) - Math.min(...pixel);
        let count = 0;
        for (let i = 0; i < data.length; i += 4) if (range(data.slice(i, i + 3)) > 40) count += 1;
        return count;
    }"""
    assert view(page).locator("canvas").evaluate(coloured) > 1000


def test_it_is_as_wide_as_the_page(page: Page) -> None:
    box = view(page).bounding_box()
    assert box
    assert box["width"] > 1100
    expect(view(page).locator(".legend")).to_contain_text("each head has its own colour")
