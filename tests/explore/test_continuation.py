"""A causal language model in the explorer goes on with a text, token by token, as it does in Python."""

import copy
import re
from collections.abc import Callable

import pytest
import torch
from page_views import table, weights
from playwright.sync_api import Locator, Page, expect
from running_explorer import Running
from transformers import GPT2Config, GPT2LMHeadModel

import regard
from regard.explore.session import Session
from regard.tracing.model_loading import LoadedModel

RAIN = "It rains."


@pytest.fixture(scope="module")
def loaded(minilm: LoadedModel) -> LoadedModel:
    """A small GPT-2 of random parameters, with MiniLM's tokenizer."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(minilm.tokenizer), n_positions=19, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # so that some tokens are clearly likelier than others
    tokenizer = copy.deepcopy(minilm.tokenizer)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]  # as GPT-2's; it would read types of tokens too
    return LoadedModel("small", model, tokenizer)


@pytest.fixture(scope="module")
def running(loaded: LoadedModel, serving: Callable[..., Running]) -> Running:
    session = Session("small", text=RAIN)
    session.loaded, session.can_write = loaded, True
    return serving(session)


@pytest.fixture
def page(tab: Page, running: Running) -> Page:
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto("about:blank")
    tab.goto(f"http://{running.host}/")
    return tab


def next_rows(page: Page) -> Locator:
    return page.locator("[data-view=next] ol li")


def shares(page: Page) -> list[float]:
    """Return the probabilities of the next tokens that the page shows."""
    return [float(text) for text in next_rows(page).locator("span:last-child").all_inner_texts()]


def logits_after(loaded: LoadedModel, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return loaded.model(torch.tensor([ids])).logits[0].double()


def within_nucleus(probabilities: torch.Tensor, share: float) -> torch.Tensor:
    """Return probabilities of the likeliest tokens until their sum is at least `share`, divided by that sum."""
    kept, total = torch.zeros_like(probabilities), 0.0
    for number in probabilities.argsort(descending=True).tolist():
        if total < share:
            kept[number] = probabilities[number]
            total += float(probabilities[number])
    return kept / total


def test_sliders_change_the_probabilities_of_the_next_token(page: Page, loaded: LoadedModel) -> None:
    logits = logits_after(loaded, loaded.tokenizer(RAIN)["input_ids"])[-1]
    likely = logits.topk(8).indices
    assert shares(page) == pytest.approx(logits.softmax(-1)[likely].tolist(), abs=1e-4)
    page.get_by_label("Temperature of the next token").fill("-1")
    assert shares(page) == pytest.approx((logits * 2).softmax(-1)[likely].tolist(), abs=1e-4)
    page.get_by_label("Sampled from the most probable").fill("0.1")
    wanted = within_nucleus((logits * 2).softmax(-1), 0.1)[likely]
    assert 0 < int((wanted > 0).sum()) < 8
    assert shares(page) == pytest.approx(wanted.tolist(), abs=1e-4)


def test_a_chosen_and_a_drawn_token_are_read_after_the_text(page: Page, loaded: LoadedModel) -> None:
    ids = loaded.tokenizer(RAIN)["input_ids"]
    first = len(ids)
    ids.append(int(logits_after(loaded, ids)[-1].topk(8).indices[2]))
    next_rows(page).locator("button").nth(2).click()
    written = page.locator("[data-view=generation] .word")
    expect(written).to_have_count(1)
    with page.expect_response("**/trace"):
        page.get_by_role("button", name="look", exact=True).click()  # the chosen token is not read again as text
    expect(page.get_by_role("button", name="look", exact=True)).to_be_visible()
    expect(written).to_have_count(1)
    ids.append(int(logits_after(loaded, ids)[-1].argmax()))
    page.get_by_label("Temperature of the next token").fill("-3")
    page.get_by_label("Sampled from the most probable").fill("0.05")
    page.get_by_role("button", name="sample one").click()
    expect(written).to_have_count(2)
    probabilities = logits_after(loaded, ids).softmax(-1)
    shown = [float(row[1]) for row in table(page, "generation")]
    wanted = [float(probabilities[place - 1, ids[place]]) for place in (first, first + 1)]
    assert shown == pytest.approx(wanted, abs=2e-5)
    page.get_by_label("Temperature of the next token").fill("0")
    check_last_weights(page, loaded, ids)
    expect(page).to_have_url(re.compile(r"continuation=\d+\+\d+&"))
    page.reload()
    expect(written).to_have_count(2)
    check_last_weights(page, loaded, ids)


def check_last_weights(page: Page, loaded: LoadedModel, ids: list[int]) -> None:
    """Compare the weights of the last token in head L1H2 with Python's."""
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_label("Head", exact=True).select_option("2")
    page.locator("[data-view=sentence] .arcs .word").last.click()
    wanted = regard.trace(loaded.model, ids, tokenizer=loaded.tokenizer)["L1H2"][len(ids) - 1]
    expect(page.locator("[data-view=sentence] .arcs .word")).to_have_count(len(ids))
    assert weights(page) == pytest.approx(wanted.tolist(), abs=2e-5)
    page.keyboard.press("Escape")


def test_the_model_draws_what_it_writes_with_the_temperature_and_the_nucleus(
    page: Page, running: Running, loaded: LoadedModel
) -> None:
    read = loaded.tokenizer(RAIN)["input_ids"]
    exact = regard.trace(loaded.model, RAIN, tokenizer=loaded.tokenizer, new_tokens=8)
    best = loaded.tokenizer.convert_tokens_to_ids([one.token.piece for one in exact.written])

    def drawn(**settings: float) -> list[int]:
        torch.manual_seed(0)
        status, answer, _ = running.ask("/trace", {"text": RAIN, "new_tokens": 8, **settings})
        assert status == 200
        return answer["going"]["continuation"]

    assert drawn(temperature=0) == drawn(temperature=9, nucleus=1e-6) == best
    ids = drawn(temperature=9, nucleus=0.5)
    assert ids != best
    for place, chosen in enumerate(ids):
        probabilities = (logits_after(loaded, [*read, *ids[:place]])[-1] / 9).softmax(-1)
        assert within_nucleus(probabilities, 0.5)[chosen] > 0
    page.get_by_label("Temperature of the next token").fill("-3.1")
    page.get_by_label("and write").fill("8")
    page.get_by_role("button", name="look", exact=True).click()
    expect(page).to_have_url(re.compile(f"continuation={'[+]'.join(map(str, best))}&"))


def test_the_model_writes_after_a_continuation_and_changes_reach_it(running: Running, loaded: LoadedModel) -> None:
    status, answer, _ = running.ask("/trace", {"text": RAIN, "continuation": [2003, 2000], "new_tokens": 3})
    assert status == 200
    read = loaded.tokenizer(RAIN)["input_ids"]
    going = answer["going"]
    assert (going["text"], going["continuation"][:2]) == (RAIN, [2003, 2000])
    ids = [*read, *going["continuation"]]
    assert len(answer["written"]) == len(ids) - len(read) <= 5
    for written, place in zip(answer["written"], range(len(read), len(ids)), strict=True):
        likelihood = logits_after(loaded, ids)[place - 1].softmax(-1)
        assert (written["position"], written["probability"]) == (place, pytest.approx(float(likelihood[ids[place]])))
        assert place < len(read) + 2 or ids[place] == int(likelihood.argmax())
    last = len(read) + 1
    change = {"kind": "cut", "query": last, "key": 0, "heads": ["L0H1"]}
    _, effect, _ = running.ask("/effect", {"text": RAIN, "continuation": [2003, 2000], "changes": [change]})
    cut = [regard.Cut(last, 0, heads=["L0H1"])]
    traces = [
        regard.trace(loaded.model, [*read, 2003, 2000], tokenizer=loaded.tokenizer, changes=changes)
        for changes in ([], cut)
    ]
    assert effect["output"] == pytest.approx(regard.compare(*traces).output)


def test_a_text_that_is_too_long_is_refused_in_view_and_its_beginning_can_be_read(page: Page) -> None:
    page.get_by_label("Text").fill("snake " * 600)
    page.get_by_role("button", name="look").click()
    refusal = page.locator("[role=alert]")
    expect(refusal).to_contain_text("tokens long and the model reads at most 19; shorten it.")
    expect(refusal).to_be_in_viewport()
    refusal.get_by_role("button", name="read only its beginning").click()
    expect(page.locator(".facts")).to_contain_text("19 tokens")
    expect(refusal).to_have_count(0)
    page.get_by_label("silence this head").check()
    with page.expect_request("**/effect") as asked:
        page.get_by_role("button", name="run the model with these changes").click()
    assert asked.value.post_data_json["truncate"] is True  # the effect on the same beginning
    expect(page.locator(".effect")).to_have_count(1)


@pytest.mark.parametrize(
    ("continuation", "message"),
    [
        ([30522], "the vocabulary of small has the ids 0 to 30521, not 30522."),
        ([-1], "the vocabulary of small has the ids 0 to 30521, not -1."),
        ([1] * 513, "a text is continued by at most 512 tokens; this one by 513."),
        ([1] * 30, "the text is 35 tokens long and the model reads at most 19; shorten it."),
        ([True], "in the request, continuation=[True] must be tuple[int, ...]."),
    ],
)
def test_a_continuation_that_cannot_be_read_is_refused(running: Running, continuation: list[int], message: str) -> None:
    status, answer, _ = running.ask("/trace", {"text": RAIN, "continuation": continuation})
    assert (status, answer["error"]) == (400, message)


def test_an_encoder_goes_on_with_no_text(explorer: Running) -> None:
    assert explorer.ask("/trace", {"text": RAIN, "continuation": [2003]})[:2] == (
        400,
        {"error": "MiniLM is not a causal language model, so it cannot go on with a text."},
    )
