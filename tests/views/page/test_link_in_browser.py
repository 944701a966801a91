"""A link restores every choice of the reader: each is made, and the link then opens a page that shows the same."""

from collections.abc import Callable
from pathlib import Path

import pytest
from page_state import assert_link_restores
from page_views import view
from playwright.sync_api import Locator, Page, expect

from regard.translation.search.beam import Beam
from regard.translation.translator import Translator

CHOICES: dict[str, list[Callable[[Page], object]]] = {
    "head": [
        lambda page: page.get_by_label("Layer", exact=True).select_option("2"),
        lambda page: page.get_by_label("Head", exact=True).select_option("5"),
        lambda page: view(page, "sentence").locator(".word").nth(5).click(),
        lambda page: page.get_by_label("Colour scale").select_option("log"),
        lambda page: button(page, "sentence", "columns").click(),
        lambda page: button(page, "heads", "patterns").click(),
        lambda page: view(page, "heads").locator("select").select_option("entropy"),
        lambda page: button(page, "pattern", "circles").click(),
        lambda page: button(page, "pattern", "queries →").click(),
        lambda page: button(page, "pattern", "larger cells").click(),
        lambda page: button(page, "movement", "source tokens").click(),
        lambda page: view(page, "what-if").get_by_role("slider").press("ArrowRight"),
        lambda page: view(page, "what-if").locator("td button").first.click(),
        lambda page: view(page, "what-if").locator("td button").nth(3).click(),
        lambda page: view(page, "steps").locator(".stages button").nth(1).click(),
        lambda page: view(page, "steps").locator("tbody th button").nth(2).click(),
        lambda page: page.get_by_label("Language").select_option("ko"),
    ],
    "average": [
        lambda page: button(page, "sentence", "compare +").click(),
        lambda page: page.get_by_label("Head", exact=True).select_option("average"),
        lambda page: button(page, "sentence", "all tokens").click(),
        lambda page: page.get_by_label("hide special tokens").check(),
        lambda page: page.get_by_label("whole words").check(),
    ],
}

CHOICES_OF_A_TRANSLATION: dict[str, list[Callable[[Page], object]]] = {
    "source piece": [
        lambda page: page.get_by_label("Attention", exact=True).select_option("encoder"),
        lambda page: button(page, "alignment", "pieces").click(),
        lambda page: view(page, "alignment").locator(".candidates button").nth(1).click(),
        lambda page: view(page, "alignment").locator(".word[data-side=source]").nth(2).click(),
        lambda page: button(page, "alignment", "matrix").click(),
    ],
    "translated word": [
        lambda page: view(page, "alignment").locator(".candidates button").nth(1).click(),
        lambda page: view(page, "alignment").locator(".word[data-side=target]").nth(1).click(),
    ],
}


def button(page: Page, of: str, name: str) -> Locator:
    return view(page, of).get_by_role("button", name=name, exact=True)


@pytest.fixture(scope="module")
def translated(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a translation with three candidates."""
    found = translator.translate(["the cat sat on a mat"], search=Beam(n_best=3))[0]
    return found.html(tmp_path_factory.mktemp("link") / "page.html")


@pytest.mark.parametrize("name", [*CHOICES, *CHOICES_OF_A_TRANSLATION])
def test_a_link_restores_what_was_chosen(tab: Page, kept_page: Path, translated: Path, name: str) -> None:
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto("about:blank")
    tab.goto((kept_page if name in CHOICES else translated).as_uri())
    assert_link_restores(tab, (CHOICES | CHOICES_OF_A_TRANSLATION)[name])


def test_a_link_says_which_settings_this_page_does_not_have(opened: Callable[..., Page], kept_page: Path) -> None:
    page = opened(kept_page, address="#head=L3H1&movement=layer&sentence=columns&alignment=tree&Call+1234=5")
    expect(page.get_by_role("alert")).to_have_text(
        "The link has settings that this page does not have; they are ignored: movement, alignment, ?"
    )


def test_a_link_that_is_opened_right_after_a_choice_is_not_overwritten(tab: Page, kept_page: Path) -> None:
    tab.goto("about:blank")
    tab.goto(kept_page.as_uri())
    title = view(tab, "sentence").locator("h2")
    expect(title).to_have_text("L3H1 · it")
    tab.wait_for_timeout(300)  # the page has written its own address
    tab.evaluate("""() => {
        document.querySelector("[data-view=sentence] .word").click(); // the page will write its address in 100 ms
        history.pushState(null, "", "#head=L2H5&query=4"); // the reader opens a link, whose event comes late
        setTimeout(() => dispatchEvent(new HashChangeEvent("hashchange")), 200);
    }""")
    expect(title).to_have_text("L2H5 · very")
