"""Statistics in a trace file: they come back, and damaged ones are refused."""

from dataclasses import replace

import pytest
import torch
from damaged_trace import damage, rewrite
from torch.testing import assert_close

from regard import Ask, Trace, attend
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.watching.answered_pattern import AnsweredPattern, CallWithoutTensors

WORDS = tuple(Token(text=word, piece=word) for word in "abcdefg")


@pytest.fixture
def answered(normal):
    """A trace that has column sums and the 2 strongest keys in place of queries and keys."""
    with torch.no_grad():
        step = attend(*normal(3, 1, 2, 7, 8).unbind())
    summary = step.pattern.answer(Ask(received=True, top=2))
    pattern = AnsweredPattern(CallWithoutTensors.of_call(step.pattern.call), summary)
    attended = {"encoder": {0: replace(step, pattern=pattern)}}
    return Trace(model="m", text="a", target_text="", source=WORDS, target=(), attended=attended)


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
    assert damage(rewrite(path, lambda about, tensors: change(about["attended"]["encoder"]["0"], tensors))) == reason
