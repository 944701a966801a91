"""A link of the explorer carries the text and the model; a link that somebody else wrote does no harm."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from page_state import assert_link_restores
from page_views import weights
from playwright.sync_api import Page, Request, expect
from running_explorer import Running

import regard
from regard.tracing.model_loading import LoadedModel

FIRST = "The snake is very dangerous because it has a venom."
"""The text that the explorer shows first."""

TEXT = "Every link & bookmark = 100% of what it names; jedes größte #1, 한국어도."


@pytest.fixture
def asked(tab: Page) -> Iterator[list[dict[str, Any]]]:
    """The questions that the page sends to the server; no error, no dialog and no request elsewhere may happen."""
    questions: list[dict[str, Any]] = []
    complaints: list[str] = []

    def hear(request: Request) -> None:
        is_for_page = request.method == "GET" and request.url.partition("#")[0].endswith("/")
        if request.url.endswith("/trace"):
            questions.append(request.post_data_json)
        elif not is_for_page:
            complaints.append(request.url)

    listeners = {
        "request": hear,
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": lambda dialog: (complaints.append(dialog.message), dialog.dismiss()),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield questions
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    assert complaints == []


def open_link(tab: Page, explorer: Running, **fragment: object) -> Page:
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto("about:blank")
    tab.goto(f"http://{explorer.host}/{'#' if fragment else ''}{urlencode(fragment)}")
    expect(tab.locator(".word").first).to_be_visible()
    return tab


def named_in(address: str) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(address.partition("#")[2]).items()}


@pytest.mark.slow
def test_a_link_restores_the_typed_text_and_all_that_is_shown_of_it(tab: Page, explorer: Running) -> None:
    open_link(tab, explorer)
    expect(tab.locator(".word")).to_have_count(13)

    def read(page: Page) -> None:
        page.get_by_label("Text").fill(TEXT)
        expect(page.locator("[data-view=sentence] .word", has_text="link")).to_be_visible()

    choices = [
        read,
        lambda page: page.get_by_label("Layer", exact=True).select_option("4"),
        lambda page: page.locator("[data-view=sentence] .word", has_text="names").click(),
        lambda page: page.locator("[data-view=pattern]").get_by_role("button", name="larger cells").click(),
    ]
    assert_link_restores(tab, choices)
    link = named_in(tab.url)
    assert (link["text"], link["model"]) == (TEXT, "MiniLM")
    assert tab.get_by_label("Text").input_value() == TEXT


def test_the_numbers_of_a_link_are_those_of_its_text(
    tab: Page, explorer: Running, minilm: LoadedModel, asked: list[dict[str, Any]]
) -> None:
    open_link(tab, explorer, head="L4H7", query=2, text="It rains today.", model="MiniLM")
    expect(tab.locator("[data-view=sentence] h2")).to_have_text("L4H7 · rains")
    assert asked == [{"text": "It rains today."}]
    wanted = regard.trace(minilm.model, "It rains today.", tokenizer=minilm.tokenizer)["L4H7"]["rains"].tolist()
    assert weights(tab) == pytest.approx(wanted, abs=2e-5)


def check_unasked(tab: Page, asked: list[dict[str, Any]]) -> None:
    """Type a text, and check that it is the first text that the page asks the server about."""
    tab.get_by_label("Text").fill("It rains again.")
    expect(tab.locator("[data-view=sentence] .word")).to_have_count(6)
    assert [question["text"] for question in asked] == ["It rains again."]


def test_the_first_text_is_not_read_again(tab: Page, explorer: Running, asked: list[dict[str, Any]]) -> None:
    open_link(tab, explorer, head="L2H3", text=FIRST, model="MiniLM")
    expect(tab.locator("[data-view=sentence] h2")).to_contain_text("L2H3")
    check_unasked(tab, asked)


def test_a_link_does_not_load_another_model_until_its_reader_asks(
    tab: Page, explorer: Running, asked: list[dict[str, Any]]
) -> None:
    open_link(tab, explorer, text="It rains.", model="/no/such/model")
    expect(tab.get_by_role("alert")).to_have_text(
        "The link asks for the model “/no/such/model”, which is not loaded; "
        "press “look” to load it and to read the text."
    )
    assert tab.get_by_label("Text").input_value() == "It rains."
    assert named_in(tab.url)["text"] == "It rains."  # the address still is the link
    expect(tab.locator(".word")).to_have_count(13)
    assert asked == []
    tab.get_by_role("button", name="look").click()
    expect(tab.get_by_role("alert")).to_contain_text("no model '/no/such/model'")
    assert asked == [{"text": "It rains.", "model": "/no/such/model"}]


def test_a_link_says_how_many_tokens_the_model_wrote(tab: Page, explorer: Running, asked: list[dict[str, Any]]) -> None:
    tab.route("**/trace", lambda route: route.fulfill(status=400, json={"error": "it does not write."}))
    open_link(tab, explorer, text="Once upon a time", model="MiniLM", write=7)
    expect(tab.get_by_role("alert")).to_have_text("it does not write.")
    assert asked == [{"text": "Once upon a time", "new_tokens": 7}]
    assert tab.locator("[data-role=new-tokens]").input_value() == "7"
    expect(tab.locator(".word")).to_have_count(13)
    tab.wait_for_function("() => location.hash.includes('The+snake')")  # the first text, which is still shown
    tab.unroute("**/trace")


def test_a_long_text_is_not_in_the_link(tab: Page, explorer: Running) -> None:
    open_link(tab, explorer)
    for length, is_in_link in ((2000, True), (2001, False)):
        text = " ".join(["x" * 199] * 10).ljust(length, "y")  # each word is one token: it is too long to be known
        tab.get_by_label("Text").fill(text)
        tab.get_by_role("button", name="look").click()
        expect(tab.locator(".facts")).to_contain_text("12 tokens")
        wanted = [text] if is_in_link else []
        tab.wait_for_function(
            "wanted => `${new URLSearchParams(location.hash).getAll('text')}` === `${wanted}`", arg=wanted
        )


@pytest.mark.parametrize(
    "fragment",
    [
        {
            "text": "information " * 170, "kind": "__proto__", "head": "L999999H0", "query": "-1", "key": "1e9",
            "candidate": "99999999", "temperature": "1e-320", "pattern-at": "1e9 1e9 1e9",
        },
        {
            "text": " \n ", "temperature": "Infinity", "kept": "source999999", "step": "999999999",
            "cut": " ".join(f"{n},{n}" for n in range(13, 3000)), "step-key": "999999999", "locked": "1",
        },
        {"text": "It rains.", "model": "x" * 301},
        {"text": "It rains.", "write": 513},
    ],
    ids=lambda fragment: "-".join(fragment),
)  # fmt: skip
def test_a_hostile_link_changes_nothing(
    tab: Page, explorer: Running, asked: list[dict[str, Any]], fragment: dict[str, str]
) -> None:
    open_link(tab, explorer, **fragment)
    expect(tab.locator("[data-view=sentence] .word")).to_have_count(13)
    expect(tab.locator("[data-view=pattern] .legend")).to_be_visible()
    expect(tab.locator("[data-view=pattern] .legend strong")).to_have_count(0)  # no what-if
    expect(tab.get_by_role("alert").filter(has_not_text="they are ignored: ")).to_have_count(0)
    check_unasked(tab, asked)


def test_a_link_holds_markup_as_text_and_compares_a_limited_number_of_heads(
    tab: Page, explorer: Running, asked: list[dict[str, Any]]
) -> None:
    text = "<img src=x onerror=alert(1)> </script>"
    heads = " ".join(f"L{layer}H{head}" for layer in range(6) for head in range(12))
    open_link(tab, explorer, text=text, model="MiniLM", compared=f"L0H0 {heads}")
    expect(tab.locator("[data-view=sentence] .word")).not_to_have_count(13)
    assert tab.locator("img").count() == 0
    assert tab.get_by_label("Text").input_value() == text
    assert asked == [{"text": text}]
    expect(tab.locator(".compared")).to_have_count(16)
