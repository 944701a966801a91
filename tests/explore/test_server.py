"""The explorer's server: its answers equal regard's own, and what it must not answer it refuses."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from running_explorer import Running
from starlette.applications import Starlette
from starlette.requests import Request
from transformers import GPT2Config, GPT2LMHeadModel

import regard
from regard import Trace
from regard.explore.guard import Guard
from regard.explore.session import Session
from regard.tracing.focus import focus_on
from regard.tracing.for_page import trace_for_page
from regard.tracing.model_loading import LoadedModel
from regard.views.page.data import page_data

RAIN = "It rains."


@pytest.fixture(scope="module")
def writer(minilm: LoadedModel) -> GPT2LMHeadModel:
    """A small model that reads at most 64 tokens and writes; one next token is clearly the likeliest."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(minilm.tokenizer), n_positions=64, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    return model


@pytest.fixture(scope="module")
def writing(serving: Callable[..., Running], minilm: LoadedModel, writer: GPT2LMHeadModel) -> Running:
    session = Session("small")
    session.loaded, session.can_write = LoadedModel("small", writer, minilm.tokenizer), True
    return serving(session)


def test_an_answer_is_the_data_of_the_page(explorer: Running, minilm: LoadedModel) -> None:
    status, answer, _ = explorer.ask("/trace", {"text": RAIN})
    wanted = trace_for_page(minilm.model, RAIN, tokenizer=minilm.tokenizer)
    assert status == 200
    assert answer["movement"]["encoder"]["layers"] == [0, 1, 2, 3, 4, 5]
    data = page_data(wanted, focus_on(wanted))
    assert {name: answer[name] for name in ("text", "source", "kinds", "blocks")} == {
        name: data[name] for name in ("text", "source", "kinds", "blocks")
    }
    assert (answer["live"], answer["next"]) == (True, [])


def test_a_long_text_has_the_values_that_a_file_leaves_out(explorer: Running, minilm: LoadedModel) -> None:
    text = "It rains. " * 60
    _, answer, _ = explorer.ask("/trace", {"text": text})
    wanted = trace_for_page(minilm.model, text, tokenizer=minilm.tokenizer)
    in_file = page_data(wanted, focus_on(wanted))["kinds"]["encoder"]["layers"]
    assert not [part for layer in in_file for part in ("value", "output") if part in layer]
    layers = answer["kinds"]["encoder"]["layers"]
    assert [layer["value"]["width"] for layer in layers] == [32] * 6
    assert [layer["output"]["arrays"]["output"]["shape"] for layer in layers] == [[182, 8]] * 6


def test_the_effect_of_a_change_is_that_of_compare(explorer: Running, minilm: LoadedModel) -> None:
    change = {"kind": "cut", "query": 2, "key": 1, "heads": ["L2H3"]}
    status, answer, _ = explorer.ask("/effect", {"text": RAIN, "changes": [change]})
    assert status == 200
    plain = regard.trace(minilm.model, RAIN, tokenizer=minilm.tokenizer)
    changed = regard.trace(minilm.model, RAIN, tokenizer=minilm.tokenizer, changes=[regard.Cut(2, 1, heads=["L2H3"])])
    compared = regard.compare(plain, changed)
    assert answer["output"] == pytest.approx(compared.output)
    assert answer["heads"][0]["moved"] == pytest.approx(float(compared.heads.nan_to_num(0.0).max()))
    assert answer["heads"][0]["head"] == "L2H3"
    moved = [head["moved"] for head in answer["heads"]]
    assert moved == sorted(moved, reverse=True)


def test_the_effect_of_no_change_is_refused(explorer: Running) -> None:
    assert explorer.ask("/effect", {"text": RAIN})[:2] == (
        400,
        {"error": "there is no change; cut an edge, silence a head, or change its temperature first."},
    )


def test_a_model_that_writes_tells_the_next_tokens(
    writing: Running, writer: GPT2LMHeadModel, minilm: LoadedModel
) -> None:
    _, answer, _ = writing.ask("/trace", {"text": RAIN})
    exact = writer(**minilm.tokenizer(RAIN, return_tensors="pt")).logits[0, -1].detach().softmax(-1)
    best = int(exact.argmax())
    assert answer["next"][0][0] == minilm.tokenizer.decode([best]).removeprefix("##")
    assert answer["next"][0][1] == pytest.approx(float(exact[best]), rel=1e-4)
    status, answer, _ = writing.ask("/trace", {"text": RAIN, "new_tokens": 3})
    assert status == 200
    assert len(answer["written"]) <= 3
    assert len(answer["written"]) >= 1


def test_a_saved_trace_is_shown_without_a_model(serving: Callable[..., Running], snake: Trace) -> None:
    running = serving(Session(None, snake))
    status, page, headers = running.ask("/", method="GET")
    assert status == 200
    assert "The snake is very dangerous" in page
    assert "connect-src 'self'" in page
    assert headers["x-content-type-options"] == "nosniff"
    assert running.ask("/trace", {"text": RAIN})[:2] == (
        400,
        {"error": "this explorer shows a saved trace; start it with a model to type another text."},
    )


def test_the_beginning_of_a_text_that_is_too_long_is_read_if_it_is_asked_for(writing: Running) -> None:
    long = {"text": "snake " * 80, "truncate": True}
    refused = writing.ask("/trace", {"text": long["text"]})[1]
    assert refused["too_long"] == {"tokens": 82, "max_tokens": 64}
    status, answer, _ = writing.ask("/trace", long)
    assert (status, len(answer["target"])) == (200, 64)
    status, _, _ = writing.ask("/effect", long | {"changes": [{"kind": "silence", "head": "L1H1"}]})
    assert status == 200


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"text": " "}, "the text is empty; give at least one word to look at."),
        ([], 'the request must be a JSON object, such as {"text": "It rains."}.'),
        ({"text": 3}, "in the request, text=3 must be str."),
        (
            {"texts": "a"},
            "the request has unknown 'texts'; it must have 'text', and may have 'model', 'truncate', 'target', "
            "'new_tokens', 'temperature', 'nucleus', 'continuation', 'changes'.",
        ),
        (
            {"model": "MiniLM"},
            "the request has no 'text'; it must have 'text', and may have 'model', 'truncate', 'target', 'new_tokens', "
            "'temperature', 'nucleus', 'continuation', 'changes'.",
        ),
        ({"text": "a", "new_tokens": 0}, "new_tokens=0 must be from 1 to 512."),
        ({"text": "a", "new_tokens": True}, "in the request, new_tokens=True must be int | None."),
        ({"text": "a", "temperature": -0.5}, "temperature=-0.5 must be a finite number from 0."),
        ({"text": "a", "nucleus": 0}, "nucleus=0.0 must be above 0 and at most 1."),
        ({"text": "a" * 200_001}, "the text has 200,001 letters; the explorer reads at most 200,000."),
        ({"text": "snake " * 600}, "the text is 602 tokens long and the model reads at most 512; shorten it."),
        (
            {"text": "a", "changes": [{"kind": "x"}]},
            "a change must be an object whose 'kind' is one of cut, silence, sharpen; got {'kind': 'x'}.",
        ),
        (
            {"text": "a", "changes": [{"kind": ["cut"]}]},
            "a change must be an object whose 'kind' is one of cut, silence, sharpen; got {'kind': ['cut']}.",
        ),
        ({"text": "a", "changes": [{}] * 1001}, "a request has at most 1,000 changes; this one has 1,001."),
        ({"text": "a", "changes": [{"kind": "silence", "head": "L77H1"}]}, None),
        ({"text": "a", "model": "/no/such/folder"}, None),
        (
            {"text": "a b", "changes": [{"kind": "sharpen", "head": "L0H1", "temperature": -1.0}]},
            "in the change 'sharpen', temperature=-1.0 of Sharpen must be from 0.000001 to 1,000,000.",
        ),
        ({"text": "a b", "changes": [{"kind": "cut", "row": 1}]}, "in the change 'cut', Cut has no 'row'."),
    ],
)
def test_a_question_that_cannot_be_answered_gets_one_line(explorer: Running, content: Any, message: str | None) -> None:
    status, answer, _ = explorer.ask("/trace", content)
    assert status == 400
    assert set(answer) - {"too_long"} == {"error"}
    assert ("too_long" in answer) == ("shorten it" in answer["error"])
    assert message in (None, answer["error"])
    assert "\n" not in answer["error"]
    assert answer["error"].endswith((".", "’"))


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(explorer: Running, body: bytes) -> None:
    assert explorer.ask("/trace", body=body)[:2] == (400, {"error": "the body of the request must be JSON in UTF-8."})


def test_other_hosts_origins_and_types_are_refused(explorer: Running) -> None:
    question = {"text": RAIN}
    assert explorer.ask("/", method="GET", Host="evil.example")[:2] == (
        421,
        {"error": f"the request was sent to 'evil.example'; the address of this explorer is http://{explorer.host}."},
    )
    for origin in ("http://evil.example", "null"):
        assert explorer.ask("/trace", question, Origin=origin)[:2] == (
            403,
            {"error": f"the request comes from a page of {origin!r}; this explorer answers its own page only."},
        )
    assert explorer.ask("/trace", question, Origin=f"http://{explorer.host}")[0] == 200
    assert explorer.ask("/trace", question, Content_Type="text/plain")[:2] == (
        415,
        {"error": "the request must have the header Content-Type: application/json."},
    )
    assert explorer.ask("/trace", body=b"x" * 1_000_001)[0] == 413
    assert explorer.ask("/../../etc/passwd", method="GET")[0] == 404
    assert explorer.ask("/trace", method="GET")[0] == 405
    assert explorer.ask("/", method="GET")[0] == 200


def test_a_body_of_unknown_length_is_refused() -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"-1")]
    request = Request({"type": "http", "method": "POST", "query_string": b"", "headers": headers})
    assert Guard(Starlette(), (), None).refusal(request) == (
        411,
        "the request must have the header Content-Length.",
    )


def test_a_token_is_needed_and_kept_in_a_cookie(serving: Callable[..., Running], snake: Trace) -> None:
    running = serving(Session(None, snake), token="secret")
    assert running.ask("/", method="GET")[0] == 401
    assert running.ask("/?token=wrong", method="GET")[0] == 401
    status, _, headers = running.ask("/?token=secret", method="GET", Host="any.example")
    assert status == 200
    assert headers["set-cookie"] == "regard-token=secret; HttpOnly; SameSite=Strict; Path=/"
    assert running.ask("/", method="GET", Cookie="regard-token=secret")[0] == 200
    assert running.ask("/", method="GET", Cookie="regard-token=wrong")[0] == 401


def test_fifty_readers_at_once_are_answered_or_told_to_wait(writing: Running) -> None:
    with ThreadPoolExecutor(50) as readers:
        answers = list(readers.map(lambda n: writing.ask("/trace", {"text": f"Reader {n} asks."})[:2], range(50)))
    answered = [(n, answer) for n, (status, answer) in enumerate(answers) if status == 200]
    assert len(answered) >= 32
    assert all(answer["text"] == f"Reader {n} asks." for n, answer in answered)
    refused = [answer for status, answer in answers if status != 200]
    assert all(answer == {"error": "too many requests wait for the model; try again later."} for answer in refused)


def test_a_translator_shows_its_translation(serving: Callable[..., Running], translator_folder: Any) -> None:
    running = serving(Session(str(translator_folder)))
    status, page, _ = running.ask("/", method="GET")  # whose first text is longer than this translator reads
    assert status == 200
    assert '"cross"' in page
    status, answer, _ = running.ask("/trace", {"text": "no dog"})
    assert (status, list(answer["kinds"])) == (200, ["encoder", "decoder", "cross"])
    assert answer["target_text"]
    status, answer, _ = running.ask("/trace", {"text": "the cat sat on the mat " * 20})
    assert status == 400
    assert "pieces and the translator reads at most" in answer["error"]
    for more in ({"changes": [{"kind": "silence", "head": "cross L0H0"}]}, {"new_tokens": 3}):
        assert running.ask("/trace", {"text": "no dog"} | more)[:2] == (
            400,
            {"error": "a translator's heads cannot be changed here, and it writes its whole translation."},
        )


def test_a_first_text_that_cannot_be_read_is_told(serving: Callable[..., Running]) -> None:
    status, text, _ = serving(Session("/no/such/model")).ask("/", method="GET")
    assert status == 400
    assert "/no/such/model" in text
