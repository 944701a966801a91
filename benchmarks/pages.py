"""Measure the web pages that regard, bertviz and CircuitsVis write for one text: size, time to make, time to respond.

Every page shows all heads of MiniLM, except that of CircuitsVis, which shows one layer. A page is made in a new
process, then opened in Chromium without a network.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
import typer
from machine import machine
from measure import in_new_process, peak_memory
from options import Length, Out, Quick, Threads
from picture import Picture
from playwright.sync_api import sync_playwright
from table import Row, Table, command_of, publish
from torch import Tensor

from regard import trace
from regard.tracing.model_loading import load

LENGTHS = 32, 512
BROWSERS = "chromium", "chromium-browser", "google-chrome"
HOVERS, QUICK_HOVERS = 40, 2

# Moves the pointer to some cells of a canvas, one after the other. Returns the milliseconds from each move to the end
# of the frame that shows it, which is never less than the rest of a frame (16.7 ms at 60 frames a second).
HOVER = """async (canvas, n) => {
  const box = canvas.getBoundingClientRect()
  const times = []
  for (let i = 0; i < n; i++) {
    const clientX = box.left + box.width * (0.3 + 0.6 * i / n)
    const clientY = box.top + box.height * (0.9 - 0.6 * i / n)
    await new Promise(requestAnimationFrame)
    const start = performance.now()
    canvas.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX, clientY}))
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
            "s: seconds from opening the file in Chromium, without a network, until its numbers can be read. hover ms: "
            "milliseconds from a movement of the pointer over the pattern to the end of the frame that shows the "
            "change; a frame takes 16.7 ms. –: not measured, because the tool is not installed, or because its page "
            "loads its scripts from the internet."
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
        for name, write in WRITERS.items():
            file = Path(folder) / f"{name}.html"
            try:
                made: Row = in_new_process(measured, write, n_tokens, file, threads)
            except ImportError:
                made = dict.fromkeys(("MB", "seconds", "peak MiB"))
            usable, hover = None, None
            if name == "regard":
                usable, hover = in_new_process(used, file, QUICK_HOVERS if quick else HOVERS)
            rows.append({"tokens": n_tokens, "page": name, **made, "usable s": usable, "hover ms": hover})
    return rows


def measured(write: Callable[[int, Path], object], n_tokens: int, file: Path, threads: int) -> Row:
    """Write a page, after a small page that is not measured; return its size, time and memory."""
    torch.set_num_threads(threads)
    write(8, file)
    start = time.perf_counter()
    peak = peak_memory(lambda: write(n_tokens, file))
    seconds = time.perf_counter() - start
    return {"MB": file.stat().st_size / 1e6, "seconds": seconds, "peak MiB": peak / 2**20}


def used(file: Path, n_hovers: int) -> tuple[float, float]:
    """Open a page of regard; return the seconds until it shows weights, and the milliseconds that a hover takes."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        start = time.perf_counter()
        page.goto(file.as_uri())
        page.locator("[data-view=steps] td").first.wait_for(state="attached")
        usable = time.perf_counter() - start
        times = page.locator("[data-view=pattern] canvas").first.evaluate(HOVER, n_hovers)
        browser.close()
    return usable, median(times)


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
    shown = circuitsvis.attention.attention_patterns(tokens=tokens, attention=weights[0][0])
    file.write_text(str(shown), encoding="utf-8")


WRITERS: Mapping[str, Callable[[int, Path], None]] = {
    "regard": write_regard,
    "bertviz": write_bertviz,
    "CircuitsVis, one layer": write_circuitsvis,
}


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
