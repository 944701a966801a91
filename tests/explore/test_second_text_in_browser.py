"""A second text beside the first in the explorer: both have the numbers of Python; a word is chosen in both."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from axe import violations
from page_state import assert_link_restores
from page_views import table, view
from playwright.sync_api import Page, expect
from running_explorer import Running

import regard
from regard.tracing.model_loading import LoadedModel
from regard.tracing.trace import Trace

CARDS, GOLD, EIFFEL = "a tower of cards", "a tower of gold", "the Eiffel Tower"


def compare(page: Page, first: str, second: str) -> None:
    page.locator("[data-role=text]").fill(first)
    page.get_by_role("button", name="compare with another text").click()
    page.locator("[data-role=second-text]").fill(second)
    page.get_by_role("button", name="compare", exact=True).click()
    expect(page.locator(".facts b")).to_have_text(f"1 · {first} · 2 · {second}")


@pytest.fixture
def page(tab: Page, explorer: Running) -> Page:
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto("about:blank")
    tab.goto(f"http://{explorer.host}/")
    expect(tab.locator(".word")).to_have_count(13)
    return tab


@pytest.fixture(scope="module")
def read(minilm: LoadedModel) -> Callable[[str], Trace]:
    return lambda text: regard.trace(minilm.model, text, tokenizer=minilm.tokenizer)


def test_texts_with_other_tokens_are_side_by_side(page: Page, read: Callable[[str], Trace]) -> None:
    compare(page, EIFFEL, CARDS)
    page.get_by_label("Layer", exact=True).select_option("3")
    figures = view(page, "sentence").locator("figure")
    figures.nth(1).locator(".word", has_text="tower").click()
    expect(figures.nth(0).locator("[aria-selected=true]")).to_contain_text("Tower")
    first, second = read(EIFFEL)["L3H0"], read(CARDS)["L3H0"]
    shown = {row[0]: row[1:] for row in table(page, "sentence")}
    paired = {"[CLS]": "[CLS]", "the": "a", "Tower": "tower", "[SEP]": "[SEP]"}  # "the" and "a" are alone between pairs
    expected = {key: (first["Tower", key], second["tower", paired[key]]) for key in ("[CLS]", "Tower", "[SEP]")}
    for key, weights in expected.items():
        assert [float(text) for text in shown[key]] == pytest.approx(weights, abs=2e-5)
    assert float(shown["iff"][0]) == pytest.approx(first["Tower", "iff"], abs=2e-5)
    assert shown["iff"][1] == ""
    assert shown["of"][0] == ""
    assert float(shown["of"][1]) == pytest.approx(second["tower", "of"], abs=2e-5)
    expect(view(page, "pattern").locator("canvas")).to_have_count(2)
    pairs = {(row[0], row[1]): row[2:] for row in table(page, "pattern")}
    assert len(pairs) == 7 * 7 + 6 * 6 - 3 * 3  # [CLS], tower and [SEP] are in both
    assert float(pairs["cards", "of"][1]) == pytest.approx(second["cards", "of"], abs=2e-5)
    expect(view(page, "difference")).to_contain_text("The tokens of the two texts are not at the same places")
    expect(view(page, "difference").locator("li")).to_have_count(0)
    assert violations(page) == []


def test_a_word_that_is_in_one_text_alone_is_chosen_there_alone(page: Page, read: Callable[[str], Trace]) -> None:
    compare(page, EIFFEL, CARDS)
    figures = view(page, "sentence").locator("figure")
    figures.nth(1).locator(".word", has_text="cards").click()
    expect(page.locator("[data-view=sentence] h2")).to_have_text("L1H0 · cards")
    expect(figures.nth(0).locator("[aria-selected=true]")).to_have_count(0)
    expect(figures.nth(0).locator("figcaption")).to_contain_text("“cards” is not in this text.")
    shown = {row[0]: row[2] for row in table(page, "sentence")}
    assert float(shown["of"]) == pytest.approx(read(CARDS)["L1H0"]["cards", "of"], abs=2e-5)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("[data-view=sentence] h2")).to_have_text("L1H0 · all tokens")


def test_a_changed_word_has_the_differences_of_compare(page: Page, read: Callable[[str], Trace]) -> None:
    compare(page, CARDS, GOLD)
    first, second = read(CARDS), read(GOLD)
    compared = regard.compare(first, replace(second, source=first.source))
    rows = view(page, "difference").locator("li")
    expect(rows).to_have_count(8)
    texts = [row.locator("span").all_inner_texts() for row in rows.all()]
    assert texts == [[f"{head} · {token}", f"{share:.4f}"] for head, token, share in compared.largest(8)]
    rows.first.get_by_role("button").click()
    head, query, _ = compared.largest(1)[0]
    expect(view(page, "sentence").locator("h2")).to_have_text(f"{head} · {query}")
    expect(view(page, "pattern").locator("canvas")).to_have_count(3)
    grown = float(second[head]["tower", "gold"] - first[head]["tower", "cards"])
    cells = {(row[0], row[1]): row[2:] for row in table(page, "pattern")}
    assert float(cells["tower", "cards"][2].replace("−", "-")) == pytest.approx(grown, abs=2e-5)


def test_the_second_text_stays_when_the_first_changes_and_can_be_removed(page: Page) -> None:
    compare(page, CARDS, GOLD)
    page.locator("[data-role=text]").fill("It rains today.")
    expect(page.locator(".facts b")).to_have_text(f"1 · It rains today. · 2 · {GOLD}")
    page.get_by_role("button", name="Remove the second text").click()
    expect(page.locator(".facts b")).to_have_text("MiniLM")
    expect(page.locator("[data-role=second-text]")).to_have_count(0)
    expect(view(page, "pattern").locator("canvas")).to_have_count(1)


@pytest.mark.slow
def test_a_link_restores_both_texts(page: Page) -> None:
    assert_link_restores(
        page,
        [
            lambda page: compare(page, EIFFEL, CARDS),
            lambda page: view(page, "sentence").locator("figure").nth(1).locator(".word", has_text="cards").click(),
            lambda page: view(page, "sentence").locator("figure").nth(0).locator(".word", has_text="Tower").click(),
        ],
    )


def test_reading_the_second_text_can_be_cancelled(page: Page) -> None:
    page.route("**/trace", lambda route: None)  # never answered
    page.get_by_role("button", name="compare with another text").click()
    page.locator("[data-role=second-text]").fill(GOLD)
    page.get_by_role("button", name="cancel").click()
    expect(page.get_by_role("button", name="look")).to_be_visible()
    expect(page.locator("[role=alert]")).to_have_count(0)
    expect(page.locator(".facts b")).to_have_text("MiniLM")
    page.unroute("**/trace")
    page.get_by_role("button", name="compare", exact=True).click()
    expect(page.locator(".facts b")).to_contain_text(f" · 2 · {GOLD}")
