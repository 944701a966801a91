"""Tests of joined attention calls: in each part of the joined pattern are the weights of one of the calls."""

from typing import get_args

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import Alibi, Ask, Causal, Keep, Padding, ScaledDot, attend
from regard.attention.ask import Reduce
from regard.tracing.watching.answered_pattern import answered
from regard.tracing.watching.diagonal_bias import DiagonalBias
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


@pytest.mark.parametrize("shape", [(3, 4, 7, 7), (1, 4, 7, 7), (3, 1, 1, 7)], ids=str)
def test_an_order_moves_the_tokens_of_the_joined_pattern_and_their_bias(normal, shape):
    step = attend(*normal(3, 3, 4, 7, 11), score=ScaledDot(bias=normal(*shape)))
    order = torch.randperm(21, generator=torch.Generator().manual_seed(0))
    one, ordered = in_one_sequence(step), in_one_sequence(step, order)
    expected = one.pattern.dense()[:, :, order][..., order]
    assert_close(ordered.pattern.dense(), expected)
    assert_close(ordered.pattern[0, 1:3, [3, 11], 2:9], expected[0, 1:3][:, [3, 11], 2:9])
    added = ordered.pattern.score.bias(ordered.pattern.grid.whole(), torch.device("cpu"))
    blocks = step.pattern.score.bias.expand(3, shape[1], 7, 7)
    whole = torch.stack([torch.block_diag(*blocks[:, head]) for head in range(shape[1])])[None]
    assert_close(added, whole[:, :, order][..., order])
    assert_close(ordered.context, one.context[:, :, order])


def test_a_bias_of_items_that_do_not_fit_the_tokens_is_refused(normal):
    x, ids = normal(1, 2, 6, 8), torch.arange(6)
    for blocks, item, position in (
        (normal(2, 2, 3, 3), ids // 3, ids % 4),
        (normal(2, 2, 3, 3), ids // 3 - 1, ids % 3),
        (normal(2, 2, 3, 3), ids[:5] // 3, ids[:5] % 3),
        (normal(2, 3, 3, 3), ids // 3, ids % 3),
        (normal(4, 2, 3, 3), ids // 3, ids % 3),
        (normal(2, 2, 3, 3), ids // 3, ids * 0),
    ):
        score = ScaledDot(bias=DiagonalBias(blocks, item, position))
        assert refusal(ValueError, attend, x, x, x, score=score) == (
            f"a bias of blocks {list(blocks.shape)} does not fit batch=1, heads=2, queries=6, keys=6."
        )


def test_one_item_stays_as_it_is(normal):
    step = attend(normal(1, 2, 7, 11), normal(1, 2, 7, 11), normal(1, 2, 7, 5))
    assert in_one_sequence(step) is step


@pytest.mark.parametrize("mask", [None, Causal(), Padding(torch.tensor([7, 5, 3]))], ids=str)
def test_statistics_of_several_items_are_those_of_the_joined_pattern(normal, mask):
    step = attend(normal(3, 4, 7, 11), normal(3, 2, 7, 11), normal(3, 2, 7, 5), mask=mask)
    ask = Ask(own=True, previous=True, top=5)
    joined, expected = in_one_sequence(answered(step, ask)), in_one_sequence(step)
    seen, wanted = joined.pattern.answer(ask), expected.pattern.answer(ask)
    for name in ("received", "entropy", "distance", "first", "own", "previous"):
        assert_close(getattr(seen, name), getattr(wanted, name), msg=name)
    assert torch.equal(seen.top.keys, wanted.top.keys)
    assert_close(seen.top.weights, wanted.top.weights)
    assert (joined.pattern.shape, joined.context.shape) == (expected.pattern.shape, expected.context.shape)


@pytest.mark.parametrize("reduce", get_args(Reduce))
@pytest.mark.parametrize("size", [(2, 3), (7, 7), (5, 1)], ids=str)
def test_a_map_of_several_items_is_that_of_the_joined_pattern(normal, size, reduce):
    step = attend(normal(3, 4, 7, 11), normal(3, 2, 7, 11), normal(3, 2, 7, 5), mask=Causal())
    ask = Ask(pooled=size, reduce=reduce)
    joined, expected = in_one_sequence(answered(step, ask)), in_one_sequence(step)
    assert_close(joined.pattern.answer(ask).pooled, expected.pattern.answer(ask).pooled)


def test_groups_of_keys_are_those_keys_of_every_item(normal):
    step = attend(normal(3, 2, 7, 11), normal(3, 2, 7, 11), normal(3, 2, 7, 5))
    groups = torch.tensor([[1, 0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 1]], dtype=torch.bool)
    joined, expected = in_one_sequence(answered(step, Ask(groups=groups))), in_one_sequence(step)
    ask = Ask(groups=groups.repeat(1, 3))
    assert_close(joined.pattern.answer(ask).groups, expected.pattern.answer(ask).groups)
