"""The explorer in a real browser: a text is typed, a head is silenced, and the numbers are Python's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from page_state import assert_link_restores
from page_views import table, weights
from playwright.sync_api import Page, Route, expect
from running_explorer import Running
from steady_movement import check_steady

import regard
from regard.explore.session import Session
from regard.tracing.model_loading import LoadedModel
from regard.translation.search.beam import Beam
from regard.translation.translator import Translator


@pytest.fixture
def page(tab: Page, explorer: Running) -> Page:
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(f"http://{explorer.host}/")
    expect(tab.locator(".word")).to_have_count(13)
    return tab


def test_what_is_typed_is_read_and_the_head_stays(page: Page, minilm: LoadedModel) -> None:
    page.get_by_label("Layer", exact=True).select_option("4")
    page.get_by_label("Head", exact=True).select_option("7")
    page.get_by_label("Text").fill("It rains today.")
    expect(page.locator(".word")).to_have_count(6)
    expect(page).to_have_title("It rains today. · regard")
    expect(page.locator("[data-view=sentence] h2")).to_contain_text("L4H7")
    page.locator(".word", has_text="rains").click()
    wanted = regard.trace(minilm.model, "It rains today.", tokenizer=minilm.tokenizer)["L4H7"]["rains"].tolist()
    assert weights(page) == pytest.approx(wanted, abs=2e-5)


def test_the_old_movement_stays_until_the_new_one_is_there(page: Page) -> None:
    check_steady(page, "It rains today, and the river rises.", 11)


def test_a_silenced_head_tells_its_effect(page: Page, minilm: LoadedModel) -> None:
    page.get_by_label("Layer", exact=True).select_option("2")
    page.get_by_label("Head", exact=True).select_option("3")
    page.get_by_label("silence this head").check()
    page.get_by_role("button", name="run the model with these changes").click()
    text = "The snake is very dangerous because it has a venom."
    traces = [
        regard.trace(minilm.model, text, tokenizer=minilm.tokenizer, changes=changes)
        for changes in ([], [regard.Silence("L2H3")])
    ]
    compared = regard.compare(*traces)
    expect(page.locator(".effect p")).to_have_text(f"The output changes by at most {compared.output:.4g}.")
    expect(page.locator(".effect tbody tr").first).to_contain_text("L2H3")
    expect(page.locator("[data-view=what-if]")).to_contain_text("The whole model was run again with this change.")
    expect(page.locator("[data-view=what-if]")).not_to_contain_text("not run again")
    slider = page.locator("[data-view=what-if] input[type=range]")
    page.get_by_label("silence this head").uncheck()
    expect(page.locator(".effect")).to_have_count(0)  # of another change than the present one
    slider.fill("0.5")
    page.get_by_role("button", name="run the model with these changes").click()
    expect(page.locator(".effect")).to_have_count(1)
    slider.fill("-0.5")
    expect(page.locator(".effect")).to_have_count(0)
    expect(page.locator("[data-view=what-if]")).to_contain_text("run the model with it.")
    page.get_by_role("button", name="run the model with these changes").click()
    expect(page.locator(".effect")).to_have_count(1)
    page.get_by_role("button", name="undo all changes").click()
    expect(page.locator(".effect")).to_have_count(0)


def test_a_link_restores_a_silenced_head(page: Page) -> None:
    assert_link_restores(page, [lambda page: page.get_by_label("silence this head").check()])


def test_an_empty_and_a_long_text_are_refused_in_the_language_of_the_page(page: Page) -> None:
    page.get_by_label("Language").select_option("ko")
    for text, reason in (
        (" ", "글이 비어 있습니다"),
        ("snake " * 600, "글이 토큰 602개인데 모델은 512개까지만 읽습니다"),
    ):
        page.get_by_label("글", exact=True).fill(text)
        page.get_by_role("button", name="보기", exact=True).click()
        expect(page.locator("[role=alert]")).to_contain_text(reason)


def test_a_refusal_is_shown_and_a_question_can_be_cancelled(page: Page) -> None:
    page.get_by_label("Model").fill("/no/such/model")
    page.get_by_role("button", name="look").click()
    expect(page.locator("[role=alert]")).to_contain_text("/no/such/model")
    expect(page.locator(".word")).to_have_count(13)
    page.route("**/trace", lambda route: None)  # never answered
    page.get_by_label("Text").fill("It rains.")
    page.get_by_role("button", name="cancel").click()
    expect(page.get_by_role("button", name="look")).to_be_visible()
    expect(page.locator("[role=alert]")).to_have_count(0)
    expect(page.locator(".word")).to_have_count(13)
    page.unroute("**/trace")


def test_a_server_that_was_stopped_is_named_in_the_language_of_the_page(page: Page) -> None:
    page.route("**/trace", lambda route: route.abort("connectionrefused"))
    for language, look, message in (
        ("en", "look", "The server does not answer. Check that “regard explore” is still running, and try again."),
        ("ko", "보기", "서버가 응답하지 않습니다. regard explore가 아직 실행 중인지 확인하고 다시 시도하세요."),
    ):
        page.get_by_label("Language" if language == "en" else "언어").select_option(language)
        page.get_by_label("Text" if language == "en" else "글", exact=True).fill("It rains.")
        page.get_by_role("button", name=look, exact=True).click()
        expect(page.locator("[role=alert]")).to_have_text(message)
        page.get_by_label("Language" if language == "en" else "언어").select_option("ko")
    page.unroute("**/trace")


def test_a_text_typed_while_the_model_reads_another_is_kept(page: Page) -> None:
    held: list[Route] = []
    page.route("**/trace", lambda route: route.continue_() if held else held.append(route))
    page.get_by_label("Text").fill("It rains.")
    with page.expect_request("**/trace"):
        page.get_by_role("button", name="look").click()
    page.get_by_label("Text").fill("It snows again today.")
    held[0].continue_()  # the answer comes before the pause in typing ends
    expect(page.locator(".word", has_text="today").first).to_be_visible()
    expect(page.get_by_label("Text")).to_have_value("It snows again today.")
    page.unroute("**/trace")


def test_a_typed_sentence_is_translated_and_aligned(
    tab: Page, serving: Callable[..., Running], translator_folder: Path, translator: Translator
) -> None:
    tab.goto(f"http://{serving(Session(str(translator_folder), text='a dog sat')).host}/")
    tab.get_by_label("Text").fill("the cat ran")
    alignment = tab.locator("[data-view=alignment]")
    expect(alignment.locator(".word[data-side=source] bdi").last).to_have_text("ran")
    wanted = translator.translate(["the cat ran"], search=Beam(n_best=5))[0]
    texts = alignment.locator("table.candidates tbody button").all_inner_texts()
    assert texts == [one.text or "∅" for one in wanted.candidates]
    seen = [float(cell) for row in table(tab, "alignment") for cell in row[1:]]
    assert seen == pytest.approx(wanted.alignment.weights.flatten().tolist(), abs=1e-5)
