"""Views that are saved as pictures: whole, without controls, and in the colours of the page."""

from collections.abc import Callable
from pathlib import Path

import pytest
from page_views import saved, view
from PIL import Image
from playwright.sync_api import Browser, Page, expect

HINTS = {"steps": "Point at a number", "pattern": "scroll or pinch"}


@pytest.mark.parametrize("dark", [False, True])
def test_a_picture_is_whole_and_keeps_its_colours_and_its_layout_where_it_is_opened(
    opened: Callable[..., Page], browser: Browser, kept_page: Path, tmp_path: Path, dark: bool
) -> None:
    page = opened(kept_page, dark=dark)
    for name, hint in HINTS.items():
        expect(view(page, name)).to_contain_text(hint)  # once the layer is decoded
    style = "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).padding]"
    on_page = view(page, "sentence").evaluate(style)
    drawing = browser.new_page(color_scheme="light" if dark else "dark", viewport={"width": 360, "height": 400})
    drawing.goto(saved(page, "sentence", "svg", tmp_path).as_uri())
    assert view(drawing, "sentence").evaluate(style) == on_page
    heights = "all => all.map(one => [one.scrollHeight, one.clientHeight])"
    for name, hint in (HINTS | {"movement": "show the numbers"}).items():
        drawing.goto(saved(page, name, "svg", tmp_path).as_uri())
        assert hint not in view(drawing, name).inner_text()
        assert drawing.locator(".find, .layers, .tools").count() == 0
        assert all(content <= shown + 1 for content, shown in drawing.locator(".scroll").evaluate_all(heights))
    drawing.close()
    expect(view(page, "pattern").locator("h2")).to_have_text("All weights · L3H1")  # the picture names the head
    with Image.open(saved(page, "pattern", "png", tmp_path)) as picture:  # without the empty part of its card
        assert picture.height < 1.7 * view(page, "pattern").bounding_box()["height"]  # two pixels for one
        assert picture.convert("RGBA").getpixel((picture.width // 2, picture.height - 4))[3] == 255  # up to the edge
