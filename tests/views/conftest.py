"""Pages opened in the browser, and a trace whose layers have different numbers of heads."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page

from regard import Trace


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

    def open_file(
        path: Path,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        address: str = "",
    ) -> Page:
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


@pytest.fixture
def uneven(handmade: Callable[..., Trace]) -> Trace:
    """A trace of layers 1 and 4, of two heads and of four."""
    small, large = (handmade("a b c", n_layers=1, n_heads=heads) for heads in (2, 4))
    steps = {number: trace.attended["encoder"][0] for number, trace in ((1, small), (4, large))}
    return replace(small, attended={"encoder": steps})
