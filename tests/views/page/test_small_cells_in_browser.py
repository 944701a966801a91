"""Tests of the pattern of many tokens in a browser: cells of about a pixel have the colours of their weights."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from regard import Causal, Trace, attend
from regard.tracing.tokens.readable_tokens import Token

TOKENS = 1201
STEP = 17
"""Each query at a multiple of STEP looks at one key."""


@pytest.fixture(scope="module")
def looked() -> torch.Tensor:
    """The keys that these queries look at."""
    generator = torch.Generator().manual_seed(2)
    return torch.tensor([int(torch.randint(0, query + 1, (), generator=generator)) for query in range(0, TOKENS, STEP)])


@pytest.fixture(scope="module")
def trace(looked: torch.Tensor) -> Trace:
    """A trace of one head, in which a few weights are near 1 and all others near 0."""
    key = torch.nn.functional.normalize(torch.randn(TOKENS, 16, generator=torch.Generator().manual_seed(3)), dim=-1)
    query = torch.zeros(TOKENS, 16)
    query[::STEP] = 400 * key[looked]
    seen = attend(query[None, None], key[None, None], key[None, None], mask=Causal())
    assert seen.pattern[0, 0, ::STEP].max(dim=-1).values.min() > 0.99
    tokens = tuple(Token(f"w{n}", f"w{n}") for n in range(TOKENS))
    return Trace("handmade", "words", "", (), tokens, {"decoder": {0: seen}})


def colours(canvas: Locator, larger: float, places: list[tuple[float, float]]) -> set[tuple[int, ...]]:
    """The colours of a pattern, enlarged about its middle, at some places, each a column and a row of cells."""
    script = """(canvas, [tokens, larger, places]) => {
        const { width, height } = canvas;
        const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const last = copy.getImageData(width - 3, 0, 1, height).data;
        let top = height - 3;
        while (last[4 * top - 1]) top -= 1; // up to the first transparent pixel, above which are labels
        const whole = parseFloat(canvas.style.height) - 1 - top;
        // The words at the left have as much room as those above.
        const at = (place) => top + whole / 2 + larger * (place / tokens - 1 / 2) * whole;
        const seen = places.filter((place) => place.every((one) => at(one) > top && at(one) < width - 1));
        return seen.map(([column, row]) => [...copy.getImageData(at(column), at(row), 1, 1).data]);
    }"""
    return {tuple(colour) for colour in canvas.evaluate(script, [TOKENS, larger, places])}


@pytest.mark.slow
def test_a_strong_weight_is_a_strong_pixel(
    opened: Callable[..., Page], trace: Trace, looked: torch.Tensor, tmp_path: Path
) -> None:
    page = opened(trace.html(tmp_path / "page.html"), width=1680)
    pattern = page.locator("[data-view=pattern]")
    page.get_by_label("Colour scale").select_option("absolute")
    expect(pattern.locator(".numbers")).to_have_count(1)  # all rows are there
    for times, side in (
        (0, 4),  # a pixel of the image is a square of 4 × 4 cells
        (2, 1),  # a pixel is a cell, and four images meet in the middle
    ):
        for _ in range(times):
            pattern.get_by_role("button", name="larger").click()
        for button in ("queries →", "queries ↓"):
            page.get_by_role("button", name=button).click()
            expect(page).to_have_url(re.compile(r"queries=columns" if button == "queries →" else r"^((?!queries=).)*$"))
            check_pixels(pattern.locator("canvas"), looked, 1.6**times, side, turned=button == "queries →")


def check_pixels(canvas: Locator, looked: torch.Tensor, larger: float, side: int, turned: bool) -> None:
    """Compare the colours of strong, of weak and of masked weights, where a pixel has `side` times `side` cells."""
    strong = {(STEP * n // side, key // side) for n, key in enumerate(looked.tolist())}
    weak = {(row, row * 7 % (row + 1)) for row in range(20, TOKENS // side)} - strong
    hidden = {(row, row + 1 + row % 5) for row in range(TOKENS // side - 6)}
    found = []
    for squares in (strong, weak, hidden):
        middles = [[side * (place + 0.5) for place in square] for square in squares]
        found.append(colours(canvas, larger, [(a, b) if turned else (b, a) for a, b in middles]))
    strongest, weakest, masked = found
    assert len(strongest) == len(masked) == 1
    assert max(map(sum, strongest)) < min(map(sum, weakest)) - 100
    assert masked.isdisjoint(weakest)


@pytest.mark.parametrize("turned", [False, True])
def test_few_queries_of_many_keys_have_legible_rows_and_the_keys_can_be_moved(
    opened: Callable[..., Page], tmp_path: Path, turned: bool
) -> None:
    n_source, n_target = 211, 7
    query, key = torch.randn(1, 1, n_target, 8), torch.randn(1, 1, n_source, 8)
    source, target = (tuple(Token(f"w{n}", f"w{n}") for n in range(count)) for count in (n_source, n_target))
    trace = Trace("handmade", "words", "words", source, target, {"cross": {0: attend(query, key, key)}})
    page = opened(trace.html(tmp_path / "page.html", token="w3"), width=1280, height=1000)
    pattern, canvas = page.locator("[data-view=pattern]"), page.locator("[data-view=pattern] canvas")
    if turned:
        page.get_by_role("button", name="queries →").click()
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    along, across = (box["height"], box["width"]) if turned else (box["width"], box["height"])
    assert 12 * n_target + 30 < across
    assert along < 12 * n_source
    start, end = (box["x"] + box["width"] - 8, box["y"] + box["height"] - 8), (box["x"] + 60, box["y"] + 60)
    page.mouse.move(*start)
    before = pattern.locator(".readout").inner_text()
    page.mouse.down()
    page.mouse.move(start[0] if turned else end[0], end[1] if turned else start[1], steps=5)
    page.mouse.up()
    page.mouse.move(*start)
    expect(pattern.locator(".readout")).not_to_have_text(before)
