"""The browser that pages are tested in."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, sync_playwright

from regard import Trace

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser; without one the test is skipped, but not by CI."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and "CI" not in os.environ:
        pytest.skip(f"the page is tested in a browser: install one of {', '.join(NAMES)}; CI always does")
    assert found, f"these tests need one of {', '.join(NAMES)} on the PATH"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def uneven(handmade: Callable[..., Trace]) -> Trace:
    """A trace of layers 1 and 4, of two heads and of four."""
    small, large = (handmade("a b c", n_layers=1, n_heads=heads) for heads in (2, 4))
    steps = {number: trace.attended["encoder"][0] for number, trace in ((1, small), (4, large))}
    return replace(small, attended={"encoder": steps})
