"""Measure how smoothly the map of a long text follows the pointer in the browser, once its tiles are there.

The explorer's server shows a trace of one causal head with random queries and keys. The map is dragged twice along the
same circle: the first time, its tiles are loaded; the second time is measured.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

import torch
import typer
import uvicorn
from machine import browser_path, machine
from options import Length, Out, Quick, Threads
from picture import Picture
from playwright.sync_api import Page, sync_playwright
from table import Row, Table, command_of, publish

from regard import Causal, Trace, attend
from regard.cli.listening_socket import listen
from regard.explore.server import application
from regard.explore.session import Session
from regard.tracing.tokens.readable_tokens import Token

LONG, QUICK_LONG = 131_072, 5_000
WIDTH = 64
FRAMES, QUICK_FRAMES = 240, 20
ZOOMS, QUICK_ZOOMS = (0, 3, 6, 9, 12), (0, 12)
"""How often the cells are made twice as large, from the whole map to single weights."""

# Drags the canvas along a circle, a step in each frame. Returns the times at which the frames began, in milliseconds.
DRAG = """async (canvas, frames) => {
  const box = canvas.getBoundingClientRect();
  const middle = [box.left + box.width * 0.6, box.top + box.height * 0.6];
  const send = (name, target, angle) => target.dispatchEvent(new MouseEvent(name, {
    bubbles: true, view: window, clientX: middle[0] + 80 * Math.cos(angle), clientY: middle[1] + 80 * Math.sin(angle),
  }));
  send("mousedown", canvas, 0);
  const times = [];
  for (let i = 0; i <= frames; i++) {
    times.push(await new Promise(requestAnimationFrame));
    send("mousemove", window, 2 * Math.PI * i / frames);
  }
  send("mouseup", window, 2 * Math.PI);
  return times;
}"""


def main(length: Length = None, threads: Threads = None, quick: Quick = False, out: Out = None) -> None:
    """Measure how smoothly the map of a long text follows the pointer, at several zooms.

    \b
    Example
      python benchmarks/panning.py --length 131072
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    lengths = length or [QUICK_LONG if quick else LONG]
    n_frames, zooms = (QUICK_FRAMES, QUICK_ZOOMS) if quick else (FRAMES, ZOOMS)
    table = Table(
        name="panning",
        title="The map of a long text under the pointer",
        about=(
            "The map of one causal head of width 64 in Chromium without a GPU, in a window of 1,280 x 1,000 pixels, "
            "dragged along a circle while its tiles are there. weights a cell: how many weights a cell of the map "
            "stands for, along each side. frames a second: from the median time between two frames; 60 is the most. "
            "slowest ms: the longest time between two frames. Goal: 30 frames a second."
        ),
        command=command_of(__file__),
        machine=machine("playwright"),
        rows=[row for n_tokens in lengths for row in rows_of(n_tokens, n_frames, zooms)],
        picture=Picture(x="weights a cell", y=["frames a second"], each=["tokens"], label="frames a second"),
    )
    publish(table, out, quick)


def rows_of(n_tokens: int, n_frames: int, zooms: Sequence[int]) -> list[Row]:
    with explorer(Session(None, random_trace(n_tokens))) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(address)
        page.locator("canvas[data-level]").wait_for()
        page.locator(".turns").wait_for(state="detached", timeout=600_000)  # all levels are computed
        rows = [row_at(page, n_tokens, zoom, n_frames) for zoom in zooms]
        browser.close()
    return list({row["weights a cell"]: row for row in rows}.values())  # beyond the last level, zooms change nothing


def row_at(page: Page, n_tokens: int, zoom: int, n_frames: int) -> Row:
    """Drag the map after its cells were made twice as large `zoom` times."""
    page.get_by_role("button", name="fit", exact=True).click()
    for _ in range(zoom):
        page.get_by_role("button", name="larger cells", exact=True).click()
    canvas = page.locator("canvas[data-level]")
    canvas.evaluate(DRAG, n_frames)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1000)
    frame_starts = canvas.evaluate(DRAG, n_frames)
    milliseconds = [later - earlier for earlier, later in pairwise(frame_starts)]
    return {
        "tokens": n_tokens,
        "weights a cell": 2 ** int(canvas.get_attribute("data-level") or 0),
        "frames a second": 1000 / median(milliseconds),
        "slowest ms": max(milliseconds),
    }


def random_trace(n_tokens: int) -> Trace:
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 1, 1, n_tokens, WIDTH, generator=generator).unbind()
    attended = {"decoder": {0: attend(query, key, value, mask=Causal())}}
    tokens = tuple(Token(text=f"w{n}", piece=f"w{n}") for n in range(n_tokens))
    return Trace(model="random", text="random", target_text="", source=(), target=tokens, attended=attended)


@contextmanager
def explorer(session: Session) -> Iterator[str]:
    """Run the explorer's server during the with-block; yield the address of its page."""
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application(session, listener.hosts), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener.socket]}, daemon=True)
    thread.start()
    yield listener.address
    server.should_exit = True
    thread.join(20)


if __name__ == "__main__":
    typer.run(main)
