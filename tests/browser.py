"""The browser that pages are tested in, as fixtures that `shared_fixtures.py` imports."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--in-process-gpu",  # a process less
    "--js-flags=--liftoff-only --no-opt --no-maglev",  # compiling to faster code takes longer than these pages run
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


@pytest.fixture
def opened(tab: Page) -> Iterator[Callable[..., Page]]:
    """opened(path, width=400, dark=True) shows a file in the browser.

    In the end there must have been no message in the console, no dialog, and no request but for the files themselves.
    """
    files, complaints, requests = [], [], []
    tab.goto("about:blank")  # the page of the test before may still send requests
    listeners = {
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": lambda dialog: (complaints.append(dialog.message), dialog.dismiss()),
        "request": lambda request: requests.append(request.url),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)

    def open_file(path: Path, width: int = 1280, height: int = 900, dark: bool = False, address: str = "") -> Page:
        files.append(path.as_uri())
        tab.mouse.move(0, 0)
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(color_scheme="dark" if dark else "light", media="screen")
        tab.goto(path.as_uri() + address)
        return tab

    yield open_file
    tab.goto("about:blank")
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    assert complaints == []
    assert [url.split("#")[0] for url in requests if not url.startswith("about:")] == files
