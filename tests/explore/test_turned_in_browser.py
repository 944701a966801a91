"""Queries as rows or columns, where the two texts have different lengths: the same weights stay in view, as large."""

import re
from collections.abc import Callable

import pytest
import torch
from playwright.sync_api import Locator, Page, expect
from running_explorer import Running

from regard import Trace, attend
from regard.explore.session import Session
from regard.tracing.tokens.readable_tokens import Token
from regard.views.page import data

LEFT, TOP, HEIGHT, EDGE = 118, 104, 640, 8
"""Of a map's canvas: the room of the labels, the height of labels and map, and the room beside the map, in pixels."""

READABLE = 24
"""The size of a weight in pixels after a jump to it."""


@pytest.fixture
def shown(tab: Page, serving: Callable[..., Running]) -> Callable[..., Page]:
    """shown(queries, keys) is a page with cross-attention between texts of so many tokens."""

    def show(queries: int, keys: int, width: int = 1280, address: str = "") -> Page:
        generator = torch.Generator().manual_seed(0)
        target, source = (
            tuple(Token(f"{name}{n}", f"{name}{n}") for n in range(count))
            for name, count in (("t", queries), ("s", keys))
        )
        query, key = (3 * torch.randn(1, 2, count, 7, generator=generator) for count in (queries, keys))
        trace = Trace("toy", "a source", "a target", source, target, {"cross": {0: attend(query, key, key)}})
        tab.set_viewport_size({"width": width, "height": 1000})
        tab.goto("about:blank")
        tab.goto(f"http://{serving(Session(None, trace)).host}/{address}")
        return tab

    return show


def canvas(page: Page) -> Locator:
    return page.locator("[data-view=pattern] canvas")


def turn(page: Page, arrow: str) -> None:
    page.locator("[data-view=pattern]").get_by_role("button", name=f"queries {arrow}").click()


def pair_at(page: Page, x: float, y: float) -> tuple[str, str]:
    """The query and the key that the page names for a point of the pattern's canvas."""
    canvas(page).hover(position={"x": x, "y": y})
    readout = page.locator("[data-view=pattern] .readout")
    expect(readout).to_have_text(re.compile(r"t[0-9]+ → .*s[0-9]+ [0-9]"))
    return tuple(re.findall(r"\b[ts][0-9]+", readout.inner_text()))


def test_a_map_that_is_turned_shows_the_same_weights_as_large(
    shown: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MOST_TOKENS", 1500)
    page = shown(1501, 401)
    expect(page.locator(".turns")).to_have_count(0)
    strongest = page.locator("[data-view=strongest] li button")
    key = int(strongest.first.inner_text().split()[0])
    canvas(page).click(position={"x": LEFT + 60, "y": TOP + 200})
    expect(page.locator("[data-view=strongest] h2")).to_have_text(re.compile("^Where “[0-9,]+ t[1-9]"))
    query = int(page.locator("[data-view=strongest] h2").inner_text().split("”")[0].split(" t")[1])
    expect(strongest).to_have_count(8)
    places = [int(text.split()[0]) for text in strongest.all_inner_texts()]
    place = next(place for place, key in enumerate(places) if 50 < key < 350)  # far from the map's edges
    key = places[place]
    strongest.nth(place).click()
    width = canvas(page).bounding_box()["width"]
    x, y = LEFT + (width - LEFT - EDGE) / 2, TOP + (HEIGHT - TOP) / 2
    for arrow in ("→", "↓", "→"):
        turn(page, arrow)
        expect(page.locator("[data-view=pattern]").get_by_role("button", name=f"queries {arrow}")).to_have_attribute(
            "aria-pressed", "true"
        )
        assert pair_at(page, x, y) == (f"t{query}", f"s{key}")
        aside, down = (1, 0) if arrow == "→" else (0, 1)  # how many queries further
        assert pair_at(page, x + 3 * READABLE, y) == (f"t{query + 3 * aside}", f"s{key + 3 * down}")
        assert pair_at(page, x, y + 5 * READABLE) == (f"t{query + 5 * down}", f"s{key + 5 * aside}")
    page.reload()  # the link has the place
    assert pair_at(page, x, y) == (f"t{query}", f"s{key}")
    assert pair_at(page, x + 3 * READABLE, y) == (f"t{query + 3}", f"s{key}")


def test_a_pattern_that_is_turned_shows_the_same_weights_as_large(shown: Callable[..., Page]) -> None:
    page = shown(90, 31, 2200, "#pattern-at=4+45+12")  # 90 cells fit better from left to right than downwards
    number = cells_across(page)
    for arrow in ("→", "↓"):
        turn(page, arrow)
        page.wait_for_timeout(200)
        assert cells_across(page) == pytest.approx(number, abs=1)
        middle = [float(number) for number in page.url.split("pattern-at=")[1].split("&")[0].split("+")][1:]
        assert middle == pytest.approx([12, 45] if arrow == "→" else [45, 12], abs=4)


def cells_across(page: Page) -> int:
    """How many columns of a pattern are in 120 pixels in its middle."""
    box = canvas(page).bounding_box()
    first, last = (pair_at(page, box["width"] / 2 + aside, box["height"] / 2) for aside in (-60, 60))
    return max(int(right[1:]) - int(left[1:]) for left, right in zip(first, last, strict=True))
