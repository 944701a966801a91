"""Tests of a site in a browser: its numbers equal Python's, and it sends requests only to its own server."""

import re
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from axe import violations
from movement_shown import check_movement
from output_steps import check_output
from page_views import cells, table, weights
from playwright.sync_api import Page, Request, expect
from site_writing import write_unchecked
from steady_movement import check_steady

import regard
from regard.lessons.lesson import read_lesson
from regard.site import text_model
from regard.site.check import TEXTS
from regard.tracing.focus import focus_on
from regard.tracing.model_loading import LoadedModel, load

RAIN = "It rains today, and the old man looks at the river."

PATIENCE = 60_000
"""The milliseconds that loading the model may take."""


@pytest.fixture(scope="module")
def model(small: Path) -> LoadedModel:
    return load(str(small))


@pytest.fixture
def requests(tab: Page) -> Iterator[list[str]]:
    """Return a list, to which the URL of every later request of the page is added."""
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    tab.on("request", note)
    yield asked
    tab.remove_listener("request", note)


@pytest.fixture
def page(tab: Page, served, requests) -> Page:
    """The site's page, just opened, in English."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto("about:blank")
    tab.goto(served.address)
    expect(tab.locator(".word")).to_have_count(13)
    return tab


def test_typed_text_has_the_weights_of_python_and_the_site_asks_nobody_else(
    page: Page, served, requests, model: LoadedModel
) -> None:
    assert requests == [served.address]  # the model is loaded when somebody is about to type
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_label("Head", exact=True).select_option("2")
    page.get_by_label("Text").fill(RAIN)
    expect(page.locator(".word")).to_have_count(15, timeout=PATIENCE)
    wanted = regard.trace(model.model, RAIN, tokenizer=model.tokenizer)
    expect(page.locator("[data-view=sentence] h2")).to_have_text(f"L1H2 · {focus_on(wanted, head='L1H2').token}")
    for layer, head in ((1, 2), (0, 0)):
        page.get_by_label("Layer", exact=True).select_option(str(layer))
        page.get_by_label("Head", exact=True).select_option(str(head))
        for word in ("looks", "river"):
            page.locator(".word", has_text=word).click()
            exact = wanted[f"L{layer}H{head}"][word].tolist()
            assert weights(page) == pytest.approx(exact, abs=2e-5)
            page.keyboard.press("Escape")
    names = ("", "worker.js", "model.onnx", "model.outputs", "runtime.deflate", "tokenizer.json")
    asked = [url.partition("?")[0] for url in requests if not url.startswith("blob:")]
    assert sorted(asked) == sorted(f"{served.address}{name}" for name in names)


def test_the_page_and_the_course_link_to_each_other_in_the_language_that_is_shown(page: Page) -> None:
    page.get_by_role("link", name="Lessons").click()
    expect(page.locator("h1")).to_have_text(read_lesson("1").texts["en"].title)
    page.go_back()
    page.get_by_label("Language").select_option("ko")
    page.get_by_role("link", name="강의").click()
    expect(page.locator("h1")).to_have_text(read_lesson("1").texts["ko"].title)
    page.get_by_role("link", name="내 글로 해 보기").click()
    expect(page.get_by_role("link", name="강의")).to_be_visible()
    expect(page.locator("[data-role=text]")).to_be_visible()


def test_what_a_head_adds_is_that_of_python(tab: Page, served, model: LoadedModel) -> None:
    exact = regard.trace(model.model, "it rains today", tokenizer=model.tokenizer, keep=("hidden",))
    check_output(tab, served.address, exact, "L1H1")


def test_the_old_movement_stays_until_the_new_one_is_there(page: Page) -> None:
    check_steady(page, RAIN, 15)
    page.get_by_label("Text").fill("snow " * 80)  # too long for the model: no movement is to come
    page.get_by_role("button", name="look", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("[data-view=movement] svg.plane")).to_be_visible()  # of the text that is still shown


def test_a_token_moves_as_in_python(tab: Page, served, model: LoadedModel) -> None:
    exact = regard.trace(model.model, RAIN, tokenizer=model.tokenizer, keep=("hidden",))
    check_movement(tab, served.address, exact, "encoder", token=2)


def test_a_cut_edge_a_sharper_and_a_silenced_head_have_python_s_effect(page: Page, model: LoadedModel) -> None:
    page.get_by_label("Text").fill(RAIN)
    expect(page.locator(".word")).to_have_count(15, timeout=PATIENCE)
    page.get_by_label("Layer", exact=True).select_option("0")
    page.get_by_label("Head", exact=True).select_option("1")
    page.locator(".word", has_text="looks").click()
    page.get_by_role("button", name="cut “looks” → “man”").click()
    slider = page.get_by_label("Temperature")
    slider.fill("-1")
    cut = [regard.Cut("looks", "man", heads=["L0H1"]), regard.Sharpen("L0H1", 0.5)]
    check_effect(page, model, cut)
    page.get_by_role("button", name="undo all changes").click()
    page.get_by_label("silence this head").check()
    check_effect(page, model, [regard.Silence("L0H1")], silenced="L0H1")


def check_effect(page: Page, model: LoadedModel, changes: list, silenced: str = "") -> None:
    """Run the model with the changes made in the page, and compare the shown effect with Python's.

    Args:
        silenced: the silenced head; all its queries move all of their attention, so the page may name any of them.
    """
    page.get_by_role("button", name="run the model with these changes").click()
    plain = regard.trace(model.model, RAIN, tokenizer=model.tokenizer)
    changed = regard.trace(model.model, RAIN, tokenizer=model.tokenizer, changes=changes)
    exact = regard.compare(plain, changed)
    shown = page.locator(".effect p").inner_text()
    assert float(shown.removeprefix("The output changes by at most ").rstrip(".")) == pytest.approx(
        exact.output, abs=1e-4
    )
    rows = cells(page.locator(".effect tbody tr"))
    wanted = [(name, token, moved) for name, token, moved in exact.largest(6) if moved > 1e-4]
    for row, (name, token, _) in zip(rows, wanted, strict=False):
        assert (row[0], token if name == silenced else row[1]) == (name, token)
    assert [float(row[2]) for row in rows[: len(wanted)]] == pytest.approx([moved for *_, moved in wanted], abs=1e-4)


def test_a_masked_word_has_python_s_effect(page: Page, model: LoadedModel) -> None:
    page.get_by_label("Text").fill(RAIN)
    expect(page.locator(".word")).to_have_count(15, timeout=PATIENCE)
    page.get_by_label("Layer", exact=True).select_option("0")
    page.get_by_label("Head", exact=True).select_option("1")
    page.locator(".word", has_text="looks").click()
    page.get_by_role("button", name="mask “man” for every token").click()
    check_effect(page, model, [regard.Cut(None, "man", heads=["L0H1"])])


def test_what_cannot_be_read_is_said_in_the_reader_s_language(page: Page) -> None:
    page.get_by_label("Text").fill("word " * 63)
    page.get_by_role("button", name="look").click()
    expect(page.locator("[role=alert]")).to_contain_text(
        "The text is 65 tokens long and the model reads at most 64; shorten it.", timeout=PATIENCE
    )
    page.get_by_label("Text").fill(" ")
    page.get_by_role("button", name="look").click()
    expect(page.locator("[role=alert]")).to_have_text("The text is empty; type at least one word.")
    page.get_by_label("Language").select_option("ko")
    page.get_by_label("글", exact=True).fill("word " * 63)
    page.get_by_role("button", name="보기", exact=True).click()
    expect(page.locator("[role=alert]")).to_contain_text("글이 토큰 65개인데 모델은 64개까지만 읽습니다.")
    expect(page.locator("footer")).to_contain_text("모델은 이 페이지 안에서 실행됩니다.")
    expect(page.locator(".word")).to_have_count(13)
    page.get_by_role("button", name="앞부분만 읽기").click()
    expect(page.locator(".word")).to_have_count(64, timeout=PATIENCE)
    expect(page.locator(".word bdi").last).to_have_text("[SEP]")


def test_a_file_that_is_missing_is_named_and_loaded_when_it_is_back(page: Page) -> None:
    missing, waiting = "**/model.onnx*", []
    page.route(missing, lambda route: waiting.append(route))
    page.get_by_label("Text").fill(RAIN)
    status = page.locator(".type [role=status]")
    expect(status).to_contain_text("loading the model into this page: ", timeout=PATIENCE)
    waiting[0].fulfill(status=404)
    expect(page.locator("[role=alert]")).to_have_text(
        "model.onnx of this site could not be loaded (status 404); check that the file is in the site’s folder, and "
        "press “look” again.",
        timeout=PATIENCE,
    )
    page.unroute(missing)
    page.get_by_role("button", name="look").click()
    expect(page.locator(".word")).to_have_count(15, timeout=PATIENCE)
    expect(page.locator("[role=alert]")).to_have_count(0)
    expect(status).to_have_text("")


def test_the_page_says_how_close_its_weights_are_and_loads_only_from_its_own_server(page: Page, served) -> None:
    expect(page.locator(".precision")).to_contain_text("with ONNX Runtime in float32")
    shown = float(page.locator(".precision").inner_text().removesuffix(".").rpartition(" ")[2])
    assert shown == pytest.approx(served.site.models[0].difference.weights, rel=0.1)
    assert shown < 1e-5
    with urllib.request.urlopen(served.address) as answer:
        policy = answer.read().decode().split('Content-Security-Policy" content="')[1].split('"')[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("style-src").startswith("'sha256-")
    script, wasm = rules.pop("script-src").split()
    assert (script.startswith("'sha256-"), wasm) == (True, "'wasm-unsafe-eval'")
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "connect-src": "'self'",
        "worker-src": "blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    in_worker = """async (address) => {
      const text = `fetch(${JSON.stringify(address)}).then(() => postMessage("loaded"), () => postMessage("refused"))`;
      const worker = new Worker(URL.createObjectURL(new Blob([text])));
      return new Promise((say) => (worker.onmessage = ({ data }) => say(data)));
    }"""
    elsewhere = served.address.replace("127.0.0.1", "localhost")
    assert page.evaluate(in_worker, served.address) == "loaded"
    assert page.evaluate(in_worker, elsewhere) == "refused"
    table(page, "what-if")
    assert violations(page, ".top") == []  # the field for the text; tests of pages in files search the other views
    assert violations(page, "[data-view=what-if]") == []


def test_two_texts_are_side_by_side_and_the_first_one_moves(page: Page, model: LoadedModel) -> None:
    first, second = "the old man looks at the river", "the old man looks at the sea"
    page.get_by_label("Text", exact=True).fill(first)
    expect(page.locator(".word")).to_have_count(9, timeout=PATIENCE)
    page.get_by_role("button", name="compare with another text").click()
    page.locator("[data-role=second-text]").fill(second)
    page.get_by_role("button", name="compare", exact=True).click()
    expect(page.locator(".facts b")).to_contain_text(f"1 · {first[:24]}")
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_label("Head", exact=True).select_option("2")
    page.locator(".word", has_text="looks").first.click()
    for column, text in enumerate((first, second), 1):
        exact = regard.trace(model.model, text, tokenizer=model.tokenizer)["L1H2"]["looks"].tolist()
        assert weights(page, column=column) == pytest.approx(exact, abs=2e-5)
    compared = [regard.trace(model.model, text, tokenizer=model.tokenizer) for text in (first, second)]
    difference = regard.compare(compared[0], replace(compared[1], source=compared[0].source))
    rows = page.locator("[data-view=difference] li")
    head, token, moved = difference.largest(1)[0]
    expect(rows.first).to_contain_text(f"{head} · {token}")
    assert float(rows.first.locator("span").nth(1).inner_text()) == pytest.approx(moved, abs=1e-4)
    expect(page.locator("[data-view=movement] svg.plane")).to_be_visible()  # not stopped by the second question
    page.get_by_label("Text", exact=True).fill("the old man looks at the snow")
    expect(page.locator(".facts b")).to_contain_text("1 · the old man looks at the ", timeout=PATIENCE)
    expect(page.locator("[data-view=movement]")).to_contain_text("snow")
    expect(page).to_have_url(re.compile("snow"))  # the page writes its address a moment later
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("[data-role=second-text]")).to_have_value(second, timeout=PATIENCE)
    expect(page.locator(".facts b")).to_contain_text(" · 2 · the old man looks at the ", timeout=PATIENCE)
    expect(page.locator("[data-view=movement]")).to_contain_text("snow")  # of the first text, asked for just before


def test_a_model_of_8_bits_says_how_far_it_is_from_python(
    tab: Page, small: Path, model: LoadedModel, served, serve_folder: Callable[[Path], str], tmp_path: Path, monkeypatch
) -> None:
    """The graph is that of the served site, with parameters of 8 bits."""
    monkeypatch.setattr(text_model, "write_model", lambda *given: shutil.copy(served.folder / "model.onnx", given[-1]))
    site = write_unchecked(tmp_path / "site", str(small), int8=True)
    sizes = [(folder / "model.onnx").stat().st_size for folder in (tmp_path / "site", served.folder)]
    assert sizes[0] < 0.5 * sizes[1]
    difference = site.models[0].difference.weights
    assert 1e-4 < difference < 0.5
    tab.goto("about:blank")
    tab.goto(serve_folder(tmp_path / "site"))
    expect(tab.locator(".precision")).to_contain_text("from a model whose parameters have 8 bits")
    expect(tab.locator(".precision")).to_contain_text(f"by up to {difference:.2}")
    tab.get_by_label("Text").fill(TEXTS[1])
    expect(tab.locator(".word")).to_have_count(5, timeout=PATIENCE)
    for head in ("L0H0", "L1H2"):
        tab.get_by_label("Layer", exact=True).select_option(head[1])
        tab.get_by_label("Head", exact=True).select_option(head[3])
        tab.locator(".word", has_text="rains").click()
        exact = regard.trace(model.model, TEXTS[1], tokenizer=model.tokenizer)[head]["rains"].tolist()
        assert weights(tab) == pytest.approx(exact, abs=difference + 2e-5)
        tab.keyboard.press("Escape")
