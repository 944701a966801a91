"""Tests of joined attention calls: in each part of the joined pattern are the weights of one of the calls."""

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import Alibi, Ask, Causal, InputError, Keep, Padding, ScaledDot, attend
from regard.tracing.watching.answered_pattern import answered
from regard.tracing.watching.joined_calls import in_one_sequence


@pytest.mark.parametrize(
    "stages",
    [
        {},
        {"mask": Causal()},
        {"mask": Padding(torch.tensor([7, 5, 3]))},
        {"mask": Keep(torch.arange(7) != 2)},
        {"score": ScaledDot(scale=0.3, softcap=2.0)},
        {"score": ScaledDot(bias=torch.randn(3, 1, 7, 7)), "mask": Causal()},
        {"score": ScaledDot(bias=torch.randn(4, 7, 7))},
        {"score": ScaledDot(bias=Alibi())},
    ],
    ids=str,
)
def test_items_of_a_batch_are_blocks_of_one_pattern(normal, stages):
    step = attend(normal(3, 4, 7, 11), normal(3, 2, 7, 11), normal(3, 2, 7, 5), **stages)
    joined = in_one_sequence(step)
    weights = step.pattern.dense()
    expected = torch.stack([torch.block_diag(*weights[:, head]) for head in range(4)])[None]
    assert_close(joined.pattern.dense(), expected)
    value = torch.cat(list(step.pattern.value.repeat_interleave(2, dim=1)), dim=1)[None]
    assert_close(joined.context, joined.pattern.dense() @ value)
    assert joined.pattern.entropy().shape == (1, 4, 21)


def test_one_item_stays_as_it_is(normal):
    step = attend(normal(1, 2, 7, 11), normal(1, 2, 7, 11), normal(1, 2, 7, 5))
    assert in_one_sequence(step) is step


def test_statistics_of_several_items_are_refused(normal):
    step = answered(attend(normal(3, 2, 7, 11), normal(3, 2, 7, 11), normal(3, 2, 7, 5)), Ask())
    assert refusal(InputError, in_one_sequence, step) == (
        "ask=… keeps statistics of each picture, tile or window apart, and a trace needs them over all tokens; leave "
        "ask=… out, with layers=[…] if memory is short."
    )
