"""Statistics in a trace file: they come back, and damaged ones are refused."""

import json
from dataclasses import replace

import pytest
import torch
from refusals import refusal
from safetensors import safe_open
from safetensors.torch import load_file
from torch.testing import assert_close

from regard import Ask, InputError, Trace, attend
from regard.tensor_file import write_tensors
from regard.tracing.files.trace_file import FORMAT
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.watching.answered_pattern import AnsweredPattern, ForgottenCall

WORDS = tuple(Token(text=word, piece=word) for word in "abcdefg")


@pytest.fixture
def answered(normal):
    """A trace that has column sums and the 2 strongest keys in place of queries and keys."""
    with torch.no_grad():
        step = attend(*normal(3, 1, 2, 7, 8).unbind())
    summary = step.pattern.answer(Ask(received=True, top=2))
    pattern = AnsweredPattern(ForgottenCall.without_tensors(step.pattern.call), summary)
    attended = {"encoder": {0: replace(step, pattern=pattern)}}
    return Trace(model="m", text="a", target_text="", source=WORDS, target=(), attended=attended)


def damaged(path, change):
    """Call `change` on the attention call in a trace file and on the file's tensors; return why the file is refused."""
    with safe_open(path, "pt") as file:
        document = json.loads(file.metadata()[FORMAT])
    tensors = load_file(path)
    change(document["attended"]["encoder"]["0"], tensors)
    write_tensors(path, tensors, {FORMAT: json.dumps(document)})
    return refusal(InputError, Trace.load, path).replace(str(path), "FILE")


def test_statistics_come_back(answered, tmp_path):
    again = Trace.load(answered.save(tmp_path / "trace.safetensors"))
    assert_close(again.encoder[0].received(), answered.encoder[0].received(), rtol=0, atol=0)
    assert torch.equal(again.encoder[0].top(2).keys, answered.encoder[0].top(2).keys)


def shorter_received(step, tensors):
    name = step["statistics"]["received"]
    tensors[name] = tensors[name][..., :5].clone()


def keys_past_the_end(step, tensors):
    tensors[step["statistics"]["top"][1]].fill_(7)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda step, tensors: step["statistics"].pop("top"), "the statistics are not those that `ask` requests"),
        (lambda step, tensors: step["ask"].update(received=False), "the statistics are not those that `ask` requests"),
        (shorter_received, "a statistic has shape [1, 2, 5] and not [1, 2, 7]"),
        (keys_past_the_end, "the strongest keys are not positions of keys"),
        (lambda step, tensors: step.update(backend=3), "TypeError the backend's name must be a string"),
        (lambda step, tensors: step.update(d_value=0), "TypeError 0 is not a size"),
        (lambda step, tensors: step.update(grid=[1, 2, 7, "7"]), "TypeError '7' is not a size"),
    ],
)
def test_damaged_statistics_are_refused(answered, tmp_path, change, reason):
    path = answered.save(tmp_path / "trace.safetensors")
    assert damaged(path, change) == f"FILE is damaged: {reason}; save the trace again."
