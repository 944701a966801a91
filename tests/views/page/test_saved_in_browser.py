"""Views that are saved as pictures: whole, without controls, and in the colours of the page."""

from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import pytest
from playwright.sync_api import Browser, Page, expect

import regard
from regard.tracing.model_loading import LoadedModel

SENTENCE = "The snake is very dangerous because it has a venom."


@pytest.fixture(scope="module")
def written(minilm: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sentence, with the movement of its tokens."""
    kept = regard.trace(minilm.model, SENTENCE, tokenizer=minilm.tokenizer, keep=("hidden",))
    return kept.html(tmp_path_factory.mktemp("saved") / "page.html", token="it", head="L3H1")


def saved(page: Page, name: str, ending: str, folder: Path) -> Path:
    panel = page.locator(f"[data-view={name}]")
    panel.locator("details.save summary").click()
    with page.expect_download() as download:
        panel.locator("details.save").get_by_role("button", name=ending).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_a_card_that_is_higher_than_its_content_is_saved_without_the_empty_part(
    opened: Callable[..., Page], written: Path, tmp_path: Path
) -> None:
    page = opened(written)
    picture = matplotlib.image.imread(saved(page, "pattern", "PNG", tmp_path))
    assert picture.shape[0] < 1.7 * page.locator("[data-view=pattern]").bounding_box()["height"]  # two pixels for one
    assert picture[-4, picture.shape[1] // 2, 3] == 1  # the panel reaches the lower edge: nothing there is transparent


@pytest.mark.parametrize(("name", "hint"), [("steps", "Point at a number"), ("pattern", "scroll or pinch")])
def test_scrolled_tables_are_saved_whole_and_hints_are_left_out(
    opened: Callable[..., Page], browser: Browser, written: Path, tmp_path: Path, name: str, hint: str
) -> None:
    page = opened(written)
    expect(page.locator(f"[data-view={name}]")).to_contain_text(hint)  # once the layer is decoded
    drawing = browser.new_page()
    drawing.goto(saved(page, name, "SVG", tmp_path).as_uri())
    assert hint not in drawing.locator(f"[data-view={name}]").inner_text()
    heights = "all => all.map(one => [one.scrollHeight, one.clientHeight])"
    assert all(content <= shown + 1 for content, shown in drawing.locator(".scroll").evaluate_all(heights))
    drawing.close()


@pytest.mark.parametrize("dark", [False, True])
def test_a_drawing_keeps_its_colours_and_its_layout_where_it_is_opened(
    opened: Callable[..., Page], browser: Browser, written: Path, tmp_path: Path, dark: bool
) -> None:
    page = opened(written, dark=dark)
    style = "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).padding]"
    on_page = page.locator("[data-view=sentence]").evaluate(style)
    drawing = browser.new_page(color_scheme="light" if dark else "dark", viewport={"width": 360, "height": 400})
    drawing.goto(saved(page, "sentence", "SVG", tmp_path).as_uri())
    assert drawing.locator("[data-view=sentence]").evaluate(style) == on_page
    drawing.close()
