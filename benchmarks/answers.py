"""Measure the time from a typed text to its weights on the page: in a site, and in the explorer.

MiniLM reads the text: in a site by ONNX Runtime in a worker of the browser, in the explorer by PyTorch on the server.
"""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
import typer
from machine import browser_path, machine
from options import Length, Out, Quick, Threads
from panning import explorer
from picture import Picture
from playwright.sync_api import Browser, sync_playwright
from table import Row, Table, command_of, publish, with_progress

from regard.explore.session import Session
from regard.site import write_site

LENGTHS, QUICK_LENGTH = (8, 16, 32), 8
TEXTS, QUICK_TEXTS = 12, 2
SITES = {"site": False, "site int8": True}
"""The sites, each with whether its model has 8-bit parameters."""

WORDS = ["the", "quick", "brown", "fox", "and", "tall", "lazy", "dog", "saw", "one", "more", "big", "snake"]

# Types a text into the field. Returns the milliseconds until the frame is drawn in which the sentence ends with `last`.
TYPE = """async (field, [text, last]) => {
  const start = performance.now();
  field.value = text;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
  const lastWord = () => document.querySelector("[data-view=sentence] .word:nth-last-of-type(2)");
  while (!lastWord()?.textContent.startsWith(last)) await new Promise(requestAnimationFrame);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""


def main(
    length: Length = None,
    model: Annotated[str | None, typer.Option(help="A model's folder or name.", show_default="MiniLM")] = None,
    threads: Threads = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Measure the time from a typed text to its weights on the page: in a site, and in the explorer.

    \b
    Example
      python benchmarks/answers.py --length 16
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    lengths = length or ([QUICK_LENGTH] if quick else LENGTHS)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        for name, int8 in SITES.items():
            write_site(Path(folder) / name, model, course=False, int8=int8)
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox", "--disable-gpu"])
        rows = [
            {"tokens": n, **measured(browser, Path(folder), model, n, QUICK_TEXTS if quick else TEXTS)}
            for n in with_progress(lengths, "answers")
        ]
        browser.close()
    table = Table(
        name="answers",
        title="The answer to a typed text, in milliseconds",
        about=(
            f"{model or 'MiniLM'} reads a text of so many tokens, typed at once. From the last letter to the frame of "
            f"the new weights, the pause in typing included; the median of {TEXTS} texts. explorer: PyTorch runs the "
            "model on a server on the same machine; site and site int8: ONNX Runtime runs it in the browser. Goal: a "
            "site takes at most 300 ms for 16 tokens."
        ),
        command=command_of(__file__),
        machine=machine("transformers", "playwright"),
        rows=rows,
        picture=Picture(x="tokens", y=["explorer ms", "site ms", "site int8 ms"], label="milliseconds"),
    )
    publish(table, out, quick)


def measured(browser: Browser, folder: Path, model: str | None, n_tokens: int, n_texts: int) -> Row:
    texts = texts_of(n_tokens, n_texts + 1)
    with explorer(Session(model, text="A text.")) as address:
        times = {"explorer ms": answer_time(browser, address, texts)}
    for name in SITES:
        with served(folder / name) as address:
            times[f"{name} ms"] = answer_time(browser, address, texts)
    return times


def answer_time(browser: Browser, address: str, texts: list[str]) -> float:
    """Open a page, type a text that is not measured and then the others; return the median time in milliseconds."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    field = page.locator("textarea[data-role=text]")
    field.focus()  # a site loads its model
    page.locator("[data-view=sentence] .word").first.wait_for()
    _, *times = [field.evaluate(TYPE, [text, text.rpartition(" ")[2]]) for text in texts]
    page.close()
    return median(times)


def texts_of(n_tokens: int, n_texts: int) -> list[str]:
    """Return texts of `n_tokens` tokens of MiniLM, special tokens counted; neighbours end with different words."""
    return [" ".join(islice(cycle(WORDS), first, first + n_tokens - 2)) for first in range(n_texts)]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder during the with-block; yield the address."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Write no log."""


if __name__ == "__main__":
    typer.run(main)
