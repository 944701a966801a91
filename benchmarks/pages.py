"""Measure the web pages that regard, bertviz and CircuitsVis write for one text: size, time to make, time to respond.

Every page shows all heads of MiniLM, except that of CircuitsVis, which shows one layer. A page is made in a new
process, then opened in Chromium without a network. The scripts that the pages of the other tools load from the internet
come from their npm packages, which are downloaded once, before anything is measured.
"""

import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
import typer
from machine import browser_path, machine
from measure import in_new_process, peak_memory
from options import Length, Out, Quick, Threads
from picture import Picture
from playwright.sync_api import Error, Route, sync_playwright
from table import Row, Table, Value, command_of, publish
from torch import Tensor

from regard import trace
from regard.tracing.model_loading import load

LENGTHS = 32, 512
TIMEOUT = 120_000
"""The most milliseconds until a page is usable."""

HOVERS, QUICK_HOVERS = 40, 2

# Moves the pointer over an element, from place to place. Returns the milliseconds from each move to the end of the
# frame that shows it, which is never less than the rest of a frame (16.7 ms at 60 frames a second).
HOVER = """async (element, n) => {
  element.scrollIntoView({ block: "center" })
  const box = element.getBoundingClientRect()
  const times = []
  for (let i = 0; i < n; i++) {
    const clientX = box.left + box.width * (0.3 + 0.6 * i / n)
    const clientY = box.top + box.height * (0.9 - 0.6 * i / n)
    await new Promise(requestAnimationFrame)
    const under = document.elementFromPoint(clientX, clientY) ?? element
    const start = performance.now()
    under.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX, clientY }))
    for (const name of ["mouseover", "mousemove"])
      under.dispatchEvent(new MouseEvent(name, { bubbles: true, clientX, clientY }))
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    times.push(performance.now() - start)
  }
  return times
}"""


def main(length: Length = None, threads: Threads = None, quick: Quick = False, out: Out = None) -> None:
    """Compare the web pages that regard, bertviz and CircuitsVis write for one text.

    bertviz and CircuitsVis are measured if they are installed: pip install bertviz circuitsvis.

    \b
    Example
      python benchmarks/pages.py --length 32
    """
    lengths = length or ([8] if quick else LENGTHS)
    table = Table(
        name="pages",
        title="Pages of every head",
        about=(
            "MiniLM, 6 layers of 12 heads, on a text of as many tokens as the row says; CircuitsVis shows one layer "
            "only. seconds and peak MiB: to make the file from the model and the text, in a process of its own. usable "
            "s: seconds from opening the file in Chromium, without a network, until its weights are drawn. hover ms: "
            "milliseconds from a movement of the pointer over the weights of a head (in bertviz, over the words of the "
            "head that was clicked; in CircuitsVis, over the heads) to the end of the frame that shows the change; a "
            "frame takes 16.7 ms. –: not measured, because the tool is not installed, or npm, from which bertviz's "
            "scripts come, cannot be reached; or the page does not open: Chromium reads no script of more than 512 MB."
        ),
        command=command_of(__file__),
        machine=machine("transformers", "bertviz", "circuitsvis", "playwright"),
        rows=[row for n in lengths for row in rows_of(n, threads or torch.get_num_threads(), quick)],
        picture=Picture(x="tokens", y=["MB"], each=["page"], label="MB of the page", log=True),
    )
    publish(table, out, quick)


def rows_of(n_tokens: int, threads: int, quick: bool) -> list[Row]:
    rows: list[Row] = []
    with TemporaryDirectory() as folder:
        for name, tool in TOOLS.items():
            file = Path(folder) / f"{name}.html"
            row: dict[str, Value] = {"tokens": n_tokens, "page": name}
            try:
                row |= in_new_process(measure_writing, tool.write, n_tokens, file, threads)
                usable, hover = in_new_process(measure_use, file, name, QUICK_HOVERS if quick else HOVERS)
            except ImportError:
                row |= dict.fromkeys(("MB", "seconds", "peak MiB"))
                usable, hover = None, None
            rows.append(row | {"usable s": usable, "hover ms": hover})
    return rows


def measure_writing(write: Callable[[int, Path], object], n_tokens: int, file: Path, threads: int) -> Row:
    """Write a page, after a small page that is not measured; return its size, time and memory."""
    torch.set_num_threads(threads)
    write(8, file)
    start = time.perf_counter()
    peak = peak_memory(lambda: write(n_tokens, file))
    seconds = time.perf_counter() - start
    return {"MB": file.stat().st_size / 1e6, "seconds": seconds, "peak MiB": peak / 2**20}


def measure_use(file: Path, name: str, n_hovers: int) -> tuple[float | None, float | None]:
    """Open a tool's page; return the seconds until it shows weights, and the milliseconds that a hover takes."""
    tool = TOOLS[name]
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        scripts = bertviz_scripts(Path(folder)) if name == "bertviz" else {}
        if name == "bertviz" and not scripts:
            return None, None
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})

        def answer(route: Route) -> None:
            script = scripts.get(route.request.url.rpartition("/")[2])
            route.abort() if script is None else route.fulfill(body=script, content_type="text/javascript")

        page.route(re.compile("^https:"), answer)
        try:
            start = time.perf_counter()
            page.goto(file.as_uri(), timeout=TIMEOUT)
            page.locator(tool.usable).last.wait_for(state="attached", timeout=TIMEOUT)
            usable = time.perf_counter() - start
            if tool.click:
                page.locator(tool.click).last.click(force=True)
            times = page.locator(tool.hover).first.evaluate(HOVER, n_hovers)
        except Error:  # the page does not open
            return None, None
        finally:
            browser.close()
    return usable, median(times)


def bertviz_scripts(folder: Path) -> dict[str, str]:
    """Return the text of each of SCRIPTS by its name; {} if npm, which downloads them, is missing or fails."""
    if shutil.which("npm") is None:
        return {}
    scripts = {}
    for name, (package, file) in SCRIPTS.items():
        pack = ["npm", "pack", "--silent", package]
        archives = subprocess.run(pack, cwd=folder, capture_output=True, text=True, check=False).stdout.split()
        if not archives:
            return {}
        with tarfile.open(folder / archives[-1]) as archive:
            member = archive.extractfile(f"package/{file}")
            assert member is not None
            scripts[name] = member.read().decode()
    return scripts


# The pages


def write_regard(n_tokens: int, file: Path) -> None:
    minilm = load()
    trace(minilm.model, text_of(n_tokens), tokenizer=minilm.tokenizer).html(file)


def write_bertviz(n_tokens: int, file: Path) -> None:
    from bertviz import model_view

    weights, tokens = eager_weights(n_tokens)
    file.write_text(model_view(weights, tokens, html_action="return").data, encoding="utf-8")


def write_circuitsvis(n_tokens: int, file: Path) -> None:
    import circuitsvis

    weights, tokens = eager_weights(n_tokens)
    first_layer = weights[0][0]
    page = circuitsvis.attention.attention_patterns(tokens=tokens, attention=first_layer)
    file.write_text(page.local_src, encoding="utf-8")  # with its script in it


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that writes a page, and how its page is used; all but `write` are CSS selectors.

    Attributes:
        write: writes the page of a text of so many tokens.
        usable: an element that is there when the page has drawn weights.
        hover: the element over which the pointer moves.
        click: an element that is clicked before; "" = none.
    """

    write: Callable[[int, Path], None]
    usable: str
    hover: str
    click: str = ""


TOOLS: Mapping[str, Tool] = {
    "regard": Tool(write_regard, "[data-view=steps] td", "[data-view=pattern] canvas"),
    "bertviz": Tool(write_bertviz, "#attn_background_5_11", "svg > g.detail", "svg rect"),
    "CircuitsVis, one layer": Tool(write_circuitsvis, "canvas", "[id^=circuits-vis]"),
}

SCRIPTS = {
    "require.min.js": ("requirejs@2.3.6", "require.js"),
    "d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.4", "dist/jquery.min.js"),
}
"""The scripts that bertviz's page loads from the internet, each with its npm package and its file in it."""


def text_of(n_tokens: int) -> str:
    """Return a text of `n_tokens` tokens of MiniLM, special tokens counted."""
    words = ["the", "snake", "is", "very", "dangerous", "because", "it", "has", "a", "venom"]
    return " ".join(words[i % len(words)] for i in range(n_tokens - 2))


def eager_weights(n_tokens: int) -> tuple[tuple[Tensor, ...], list[str]]:
    """Return the attention weights of MiniLM, [1 heads queries keys] for each layer, and the tokens."""
    minilm = load()
    minilm.model.set_attn_implementation("eager")
    ids = minilm.tokenizer(text_of(n_tokens), return_tensors="pt")
    with torch.inference_mode():
        weights = minilm.model(**ids, output_attentions=True).attentions
    return weights, minilm.tokenizer.convert_ids_to_tokens(ids["input_ids"][0])


if __name__ == "__main__":
    typer.run(main)
