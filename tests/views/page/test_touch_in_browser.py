"""A page under a finger: a tap does what a click does, two fingers zoom, and the hints speak of tapping."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_views import view
from playwright.sync_api import Browser, Page, expect

from regard import Trace


@pytest.fixture
def phone(browser: Browser, snake_page: Path) -> Iterator[Page]:
    """The page of `snake` on a phone."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(snake_page.as_uri())
    expect(view(page, "strongest").locator("li")).not_to_have_count(0)
    yield page
    context.close()


def test_taps_choose_and_read_and_two_fingers_zoom(phone: Page, snake: Trace) -> None:
    expect(view(phone, "sentence").locator(".hint")).to_have_text("tap a token to see its weights")
    readout = view(phone, "pattern").locator(".readout")
    expect(readout).to_have_text("scroll or pinch to zoom, drag to move; point, tap or use arrow keys to read")
    view(phone, "sentence").locator(".word", has_text="snake").tap()
    expect(view(phone, "sentence").locator("h2")).to_have_text("L3H1 · snake")
    cells = view(phone, "pattern").locator("canvas")
    cells.scroll_into_view_if_needed()
    box = cells.bounding_box()
    x, y = 0.6 * box["width"], 0.6 * box["height"]
    cells.tap(position={"x": x, "y": y})
    expect(readout).to_have_text(re.compile("^.* → .* [0-9.]+$"))
    query, _, key, weight = readout.inner_text().split()
    assert float(weight) == pytest.approx(float(snake["L3H1"][query, key]), abs=6e-5)
    fingers = phone.context.new_cdp_session(phone)
    apart = [20, 40, 80]
    for kind, distance in zip(["touchStart", "touchMove", "touchMove"], apart, strict=True):
        points = [{"x": box["x"] + x + side * distance, "y": box["y"] + y, "id": side} for side in (-1, 1)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(phone).to_have_url(re.compile("pattern-at="))


def test_buttons_are_large_enough_for_a_finger(phone: Page) -> None:
    """At least 24 pixels, as WCAG 2.2 asks (2.5.8)."""
    buttons = "all => all.filter(one => one.offsetParent).map(one => one.getBoundingClientRect())"
    found = phone.locator(".bar button, .caution button, .changes button, summary").evaluate_all(
        f"all => ({buttons})(all).map(at => Math.min(at.width, at.height))"
    )
    assert len(found) > 30
    assert min(found) >= 24
