"""The browser that pages are tested in, as fixtures that `conftest.py` imports."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

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


expect.set_options(timeout=60_000)  # milliseconds; the tests of other workers may keep all cores busy for long


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser; without one the test is skipped, but not by CI."""
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None and "CI" not in os.environ:
        pytest.skip(f"the page is tested in a browser: install one of {', '.join(NAMES)}; CI always does")
    assert executable, f"these tests need one of {', '.join(NAMES)} on the PATH"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Iterator[Page]:
    """The one tab of the browser, in which each test opens its pages: a new tab takes longer than a page."""
    page = browser.new_page()
    page.set_default_timeout(60_000)
    yield page
    page.close()
