"""Take the pictures of the README and of docs/explorer.md: `make screenshots` after `make demo`, whose files it shows.

A real browser opens the explorer and pages of regard, goes to a view as a reader would, and saves a picture of it.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import regard
from regard.translation.translator import Translator

PICTURES = Path(__file__).parent / "explorer"
TRANSLATOR = Path(__file__).parent.parent / "demo" / "translator"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
NUMBER = "one hundred and twenty-three thousand, four hundred and fifty-six"
SNAKE = "The snake is very dangerous because it has a venom."


def main() -> None:
    """Take every picture again."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None) or sys.exit("install chromium to take pictures")
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = running.new_page(viewport={"width": 1280, "height": 1000}, device_scale_factor=1.5)
        with explorer(SNAKE) as address:
            show(page, address + "#head=L3H1&query=7")
            save(page, "page", "header", "[data-view=sentence]", "[data-view=heads]", "[data-view=pattern]")
            save(page, "sentence", "[data-view=sentence]")
            save(page, "heads", "[data-view=heads]")
            save(page, "pattern", "[data-view=pattern]")
            save(page, "movement", "[data-view=movement]")
            page.locator("[data-view=steps] button", has_text="7 ·").click()
            save(page, "steps", "[data-view=steps]")
            cut_and_run(page)
            save(page, "what-if", "[data-view=what-if]")
        with TemporaryDirectory() as folder:
            show(page, compared(Path(folder)).as_uri())
            save(page, "comparison", "[data-view=difference]", "[data-view=heads]", "[data-view=pattern]")
            show(page, translated(Path(folder)).as_uri())
            page.get_by_role("button", name="pieces").click()
            save(page, "translation", "[data-view=alignment]")
        running.close()


@contextmanager
def explorer(text: str) -> Iterator[str]:
    """Run `regard explore` on a text; yield the address of its page."""
    command = [sys.executable, "-m", "regard", "explore", text, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        printed = iter(server.stdout.readline, "")
        try:
            yield next(found[0] for line in printed if (found := re.search(r"http://[0-9.:]+/", line)))
        finally:
            server.terminate()


def compared(folder: Path) -> Path:
    """Write the page that compares the model with itself after one edge is cut; return its path."""
    cut = regard.Cut("it", "snake", heads=["L3H1"])
    traces = [regard.trace("MiniLM", SNAKE, changes=changes) for changes in ([], [cut])]
    return regard.compare(*traces).html(folder / "compared.html")


def translated(folder: Path) -> Path:
    """Write the page of a translation; return its path."""
    (translation,) = Translator.load(TRANSLATOR).translate(
        ["one hundred and twenty-three thousand, four hundred and fifty-six"]
    )
    return translation.html(folder / "translated.html")


def show(page: Page, address: str) -> None:
    """Open a page and wait until its sentence is there."""
    page.goto(address)
    page.locator("[data-view]").first.wait_for()
    page.wait_for_load_state("networkidle")


def cut_and_run(page: Page) -> None:
    """Cut the edge of the largest weight and run the model with this change."""
    page.locator("[data-view=what-if] button", has_text="✂").first.click()
    page.get_by_role("button", name="run the model with these changes").click()
    page.locator(".effect").wait_for()


def save(page: Page, name: str, *views: str) -> None:
    """Save the smallest rectangle that holds some elements of the page as docs/explorer/NAME.png."""
    page.evaluate("scrollTo(0, 0)")
    boxes = [page.locator(view).first.bounding_box() for view in views]
    left, top = (min(box[side] for box in boxes) - 12 for side in ("x", "y"))
    right = max(box["x"] + box["width"] for box in boxes) + 12
    bottom = max(box["y"] + box["height"] for box in boxes) + 12
    path = PICTURES / f"{name}.png"
    clip = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    page.screenshot(path=path, clip=clip, full_page=True)
    few_colours = (
        Image.open(path).convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE)
    )  # a third of the bytes
    few_colours.save(path, optimize=True)


if __name__ == "__main__":
    main()
