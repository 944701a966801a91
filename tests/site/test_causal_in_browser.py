"""Tests of the site of a causal language model in a browser: weights and probabilities equal Python's."""

import re
import unicodedata

import numpy as np
import onnxruntime
import pytest
import torch
from axe import violations
from causal_models import MOST
from movement_shown import check_movement
from output_steps import check_output
from page_views import cells, table, weights
from pictures import readable
from playwright.sync_api import Page, Route, expect

import regard
from regard.site.check import run_graph
from regard.tracing.generation import next_tokens
from regard.tracing.trace import Trace
from regard.visible_text import escape_controls

pytestmark = pytest.mark.slow

RAIN = "It rains today, 뱀은 독이 있다."


def opened(tab: Page, address: str) -> Page:
    """Open a site in English, and let its model read a text."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto("about:blank")
    tab.goto(address)
    tab.get_by_label("Text").fill(RAIN)
    tab.get_by_role("button", name="look", exact=True).click()
    expect(tab).to_have_url(re.compile(r"text=It\+rains"))
    return tab


@pytest.fixture
def page(tab: Page, gpt2) -> Page:
    """The site of the small GPT-2, which has read a text."""
    return opened(tab, gpt2[0].address)


def next_rows(page: Page) -> list[tuple[str, float]]:
    """Return the likely next tokens that the page shows, with their probabilities."""
    found = page.locator("[data-view=next] ol li")
    return [(texts[0], float(texts[1])) for texts in (row.locator("span").all_inner_texts() for row in found.all())]


def check_weights(page: Page, exact: Trace, heads: list[str]) -> None:
    """Compare the weights that the page shows for the last token with a trace's."""
    n_tokens = len(exact.tokens)
    tokens = page.locator("[data-view=sentence] .arcs .word")
    expect(tokens).to_have_count(n_tokens)
    for name in heads:
        page.get_by_label("Layer", exact=True).select_option(name[1])
        page.get_by_label("Head", exact=True).select_option(name[3])
        tokens.last.click()
        assert weights(page) == pytest.approx(exact[name][n_tokens - 1].tolist(), abs=2e-5)
        page.keyboard.press("Escape")


def visible(text: str) -> str:
    """Return the text of a next token as the page shows it."""
    if len(text) == 1 and unicodedata.category(text) in ("Cf", "Mn", "Mc", "Me"):
        return f"‹{ord(text):04X}›"
    return text.replace(" ", "␣")


@pytest.mark.parametrize(("model", "heads"), [("gpt2", ["L0H0", "L1H2"]), ("llama", ["L0H1", "L1H2"])])
def test_weights_and_next_tokens_are_those_of_python(tab: Page, request, model: str, heads: list[str]) -> None:
    served, loaded = request.getfixturevalue(model)
    page = opened(tab, served.address)
    exact = regard.trace(loaded.model, RAIN, tokenizer=loaded.tokenizer)
    check_weights(page, exact, heads)
    wanted = next_tokens(loaded.tokenizer, exact.output[0, -1], 8)
    shown = next_rows(page)
    assert [share for _, share in shown] == pytest.approx([share for _, share in wanted], abs=1e-4)
    assert [text for text, _ in shown] == [visible(text) for text, _ in wanted]


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_what_a_head_adds_is_that_of_python(tab: Page, request, model: str) -> None:
    served, loaded = request.getfixturevalue(model)
    exact = regard.trace(loaded.model, "It rains.", tokenizer=loaded.tokenizer, keep=("hidden",))
    check_output(tab, served.address, exact, "L1H2")


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_a_token_moves_as_in_python(tab: Page, request, model: str) -> None:
    served, loaded = request.getfixturevalue(model)
    exact = regard.trace(loaded.model, "It rains today.", tokenizer=loaded.tokenizer, keep=("hidden",))
    check_movement(tab, served.address, exact, "decoder", token=2)


def test_temperature_changes_the_probabilities_and_a_cold_draw_takes_the_likeliest_token(page: Page, gpt2) -> None:
    loaded = gpt2[1]
    logits = regard.trace(loaded.model, RAIN, tokenizer=loaded.tokenizer).output[0, -1].double()
    for power in ("1", "-3"):
        page.get_by_label("Temperature of the next token").fill(power)
        wanted = (logits / 2 ** int(power)).softmax(-1).topk(8).values.tolist()
        assert [share for _, share in next_rows(page)] == pytest.approx(wanted, abs=1e-4)
    assert wanted[0] > 0.9999
    page.get_by_role("button", name="sample one").click()
    expect(page.locator("[data-view=generation] .word")).to_have_count(1)
    ids = [*loaded.tokenizer(RAIN)["input_ids"], int(logits.argmax())]
    check_weights(page, regard.trace(loaded.model, ids, tokenizer=loaded.tokenizer), ["L1H1"])


def test_a_chosen_token_is_read_after_the_text_and_its_attention_is_shown(page: Page, gpt2) -> None:
    loaded = gpt2[1]
    ids = loaded.tokenizer(RAIN)["input_ids"]
    for place in (2, 5):
        logits = regard.trace(loaded.model, ids, tokenizer=loaded.tokenizer).output[0, -1]
        ids = [*ids, int(logits.topk(8).indices[place])]
        page.locator("[data-view=next] ol button").nth(place).click()
        expect(page.locator("[data-view=sentence] .arcs .word")).to_have_count(len(ids))
    exact = regard.trace(loaded.model, ids, tokenizer=loaded.tokenizer)
    expect(page.locator("[data-view=sentence] .arcs .word").last).to_have_attribute("aria-selected", "true")
    probabilities = exact.output[0].double().softmax(-1)
    for row, position in zip(table(page, "generation"), (len(ids) - 2, len(ids) - 1), strict=True):
        assert float(row[1]) == pytest.approx(float(probabilities[position - 1, ids[position]]), abs=1e-4)
    assert [share for _, share in next_rows(page)] == pytest.approx(probabilities[-1].topk(8).values.tolist(), abs=1e-4)
    check_weights(page, exact, ["L0H2", "L1H0"])
    expect(page).to_have_url(re.compile(r"continuation=\d+\+\d+&"))
    page.reload()
    expect(page.locator("[data-view=generation] .word")).to_have_count(2)
    check_weights(page, exact, ["L1H0"])


def test_a_text_read_in_two_runs_has_the_numbers_of_one_run(gpt2) -> None:
    served, loaded = gpt2
    session = onnxruntime.InferenceSession(served.folder / "model.onnx", providers=["CPUExecutionProvider"])
    ids = np.array([loaded.tokenizer(RAIN)["input_ids"]])
    inputs = {
        "ids": ids,
        "cut": np.zeros((ids.size, ids.size), dtype=bool),
        "changed": np.zeros((2, 3), dtype=bool),
        "temperature": np.ones((2, 3), dtype=np.float32),
    }
    once = run_graph(session, inputs)
    for n_read_first in (1, ids.size - 1):
        twice = run_graph(session, inputs, n_read_first)
        for name, array in once.items():
            np.testing.assert_allclose(twice[name], array, atol=1e-5 * np.abs(array).max(), err_msg=name)


def test_it_draws_what_it_writes_with_the_temperature_and_the_nucleus(tab: Page, gpt2) -> None:
    served, loaded = gpt2

    def without_chance(route: Route) -> None:
        script = (served.folder / "worker.js").read_text(encoding="utf-8")
        route.fulfill(body=f"Math.random = () => 0.6;{script}", content_type="text/javascript")

    tab.route("**/worker.js*", without_chance)
    page = opened(tab, served.address)
    tab.unroute("**/worker.js*")
    page.get_by_label("Temperature of the next token").fill("2")
    page.get_by_label("Sampled from the most probable").fill("0.7")
    page.get_by_label("and write").fill("5")
    page.get_by_role("button", name="look", exact=True).click()
    expect(page.locator("[data-view=generation] .word")).to_have_count(5)
    ids = loaded.tokenizer(RAIN)["input_ids"]
    drawn = []
    for _ in range(5):
        logits = loaded.model(torch.tensor([[*ids, *drawn]])).logits[0, -1].detach().double()
        shares, order = (logits / 4).softmax(-1).sort(descending=True)
        n_kept = int((shares.cumsum(0) < 0.7).sum()) + 1
        kept = torch.zeros_like(shares).index_copy_(0, order[:n_kept], shares[:n_kept] / shares[:n_kept].sum())
        drawn.append(int((kept.cumsum(0) <= 0.6).sum()))
    expect(page).to_have_url(re.compile(f"continuation={'[+]'.join(map(str, drawn))}&"))
    check_weights(page, regard.trace(loaded.model, [*ids, *drawn], tokenizer=loaded.tokenizer), ["L1H1"])


def test_it_writes_what_python_writes(page: Page, gpt2) -> None:
    loaded = gpt2[1]
    page.get_by_label("Temperature of the next token").fill("-3.1")
    page.get_by_label("and write").fill("6")
    page.get_by_role("button", name="look", exact=True).click()
    written = page.locator("[data-view=generation] .word")
    expect(written).to_have_count(6)
    exact = regard.trace(loaded.model, RAIN, tokenizer=loaded.tokenizer, new_tokens=6)
    shown = table(page, "generation")
    assert [row[0] for row in shown] == [escape_controls(one.token.text) for one in exact.written]
    assert [float(row[1]) for row in shown] == pytest.approx([one.probability for one in exact.written], abs=1e-4)
    for row, one in zip(shown, exact.written, strict=True):
        texts, shares = zip(*(part.rsplit(" ", 1) for part in readable(row[2]).split(", ")), strict=True)
        assert texts == tuple(escape_controls(text) for text, _ in one.alternatives)
        assert [float(share) for share in shares] == pytest.approx([share for _, share in one.alternatives], abs=1e-4)
    check_weights(page, exact, ["L0H0", "L1H1"])
    page.get_by_label("and write").fill("60")
    page.get_by_role("button", name="look", exact=True).click()
    expect(page.locator("[role=alert]")).to_contain_text(f"tokens long and the model reads at most {MOST}; shorten it.")


def test_changed_heads_have_the_effect_that_they_have_in_python(page: Page, gpt2) -> None:
    loaded = gpt2[1]
    page.get_by_label("Layer", exact=True).select_option("0")
    page.get_by_label("Head", exact=True).select_option("1")
    page.get_by_label("silence this head").check()
    page.get_by_role("button", name="run the model with these changes").click()
    plain = regard.trace(loaded.model, RAIN, tokenizer=loaded.tokenizer)
    changed = regard.trace(loaded.model, RAIN, tokenizer=loaded.tokenizer, changes=[regard.Silence("L0H1")])
    exact = regard.compare(plain, changed)
    shown = page.locator(".effect > p").inner_text().removeprefix("The output changes by at most ").rstrip(".")
    assert float(shown) == pytest.approx(exact.output, rel=1e-3)
    tables = page.locator(".effect table")
    tokens = cells(tables.first.locator("tbody tr"))
    for column, trace in ((1, plain), (3, changed)):
        wanted = trace.output[0, -1].double().softmax(-1).topk(8).values.tolist()
        assert [float(row[column]) for row in tokens] == pytest.approx(wanted, abs=1e-4)
    heads = cells(tables.last.locator("tbody tr"))
    wanted = [(name, moved) for name, _, moved in exact.largest(6) if moved > 1e-4]
    assert len(wanted) > 2
    assert [row[0] for row in heads] == [name for name, _ in wanted]
    assert [float(row[2]) for row in heads] == pytest.approx([moved for _, moved in wanted], abs=1e-4)


def test_the_first_page_goes_on_with_a_token_before_a_text_is_typed(tab: Page, gpt2) -> None:
    served, loaded = gpt2
    tab.goto("about:blank")
    tab.goto(served.address)
    text = "The snake is very dangerous because it has a venom."
    logits = regard.trace(loaded.model, text, tokenizer=loaded.tokenizer).output[0, -1].double()
    for power in (0, 1):
        tab.get_by_label("Temperature of the next token").fill(str(power))
        wanted = (logits / 2**power).softmax(-1).topk(8).values.tolist()
        assert [share for _, share in next_rows(tab)] == pytest.approx(wanted, abs=1e-4)
    tab.locator("[data-view=next] ol button").nth(3).click()
    ids = [*loaded.tokenizer(text)["input_ids"], int(logits.topk(8).indices[3])]
    check_weights(tab, regard.trace(loaded.model, ids, tokenizer=loaded.tokenizer), ["L1H1"])


def test_axe_finds_nothing_that_keeps_anybody_out(page: Page) -> None:
    page.locator("[data-view=next] ol button").first.click()
    expect(page.locator("[data-view=generation] .word")).to_have_count(1)
    for name in ("generation", "next"):
        assert violations(page, f"[data-view={name}]") == []
