"""Tests of the C kernel's input: scores and masks computed in C, or first by torch's operations, give equal results."""

import copy
from dataclasses import replace
from math import inf

import pytest
import torch
from torch.testing import assert_close

from regard import Alibi, Ask, Causal, Global, Keep, RelativeBias, ScaledDot, Shaw, Softmax, Window, attend
from regard.attention.statistics.cpu import engine, plan, scores

BIAS = torch.randn(1, 4, 37, 53, generator=torch.Generator().manual_seed(5))
KEEP = torch.rand(2, 1, 37, 53, generator=torch.Generator().manual_seed(7)) < 0.5
WRITTEN = {
    "a mask of ranges and others": ({"mask": Window(9, 3) | Global([2, 30])}, torch.bool),
    "a mask as a matrix and a rule": ({"mask": Keep(KEEP) & Causal()}, torch.bool),
    "a mask across memory": ({"mask": Keep(KEEP.mT.contiguous().mT)}, torch.bool),
    "a bias across memory": ({"score": ScaledDot(bias=BIAS.mT.contiguous().mT), "mask": Window(9, 3)}, torch.float32),
    "a bias that bars": (
        {"score": ScaledDot(bias=BIAS.where(KEEP[:1], -inf).mT.contiguous().mT), "mask": Keep(BIAS > -1)},
        torch.float32,
    ),
    "relative keys": ({"score": Shaw(8, 3), "mask": Causal()}, torch.float32),
}
"""Calls whose masks or scores torch writes for the kernel, with the type of the numbers."""

READ = {
    "a mask": {"mask": Keep(KEEP)},
    "a mask by key": {"mask": Keep(KEEP[:, :, :1])},
    "a bias": {"score": ScaledDot(bias=BIAS), "normalise": Softmax(0.7)},
    "a bias of few axes": {"score": ScaledDot(bias=BIAS[0, 0]), "mask": Causal()},
    "a bias that bars": {
        "score": ScaledDot(bias=BIAS.where(KEEP[:1], -torch.inf), softcap=2.0),
        "mask": Keep(BIAS > -1),
    },
    "a rule": {"score": ScaledDot(bias=Alibi()), "mask": Causal()},
    "a rule with an offset": {"score": ScaledDot(bias=Alibi(offset=-40)), "mask": Window(30, 2)},
}
"""Calls whose masks and biases the kernel reads or computes itself."""


def as_exact(query, key, value, ask, score=ScaledDot(), **call):  # noqa: B008 (frozen)
    """Return context and statistics computed in float64 by torch's operations."""
    if isinstance(score, ScaledDot) and isinstance(score.bias, torch.Tensor):
        score = replace(score, bias=score.bias.double())
    elif isinstance(score, torch.nn.Module):
        score = copy.deepcopy(score).double()
    return attend(query.double(), key.double(), value.double(), ask=ask, score=score, **call)


def check(normal, call):
    query, key, value = normal(2, 4, 37, 8), normal(2, 2, 53, 8), normal(2, 2, 53, 5)
    ask = Ask(top=3, pooled=(7, 5))
    with torch.no_grad():
        seen, exact = attend(query, key, value, ask=ask, **call), as_exact(query, key, value, ask, **call)
    assert seen.backend == "tiled"
    assert_close(seen.context.double(), exact.context, rtol=1e-5, atol=1e-5)
    for name in ("received", "entropy", "distance", "pooled"):
        found, expected = getattr(seen.pattern.statistics, name), getattr(exact.pattern.statistics, name)
        assert_close(found.double(), expected, rtol=1e-5, atol=1e-4 if name == "distance" else 1e-5)


@pytest.fixture
def written(monkeypatch):
    """Return the list of the types of numbers that torch operations write for the kernel, here in small blocks."""
    monkeypatch.setattr(plan, "BLOCK_QUERIES", 5)
    monkeypatch.setattr(plan, "SCORES_IN_CACHE", 85)
    types = []

    def recorded(write):
        return lambda numbers, *rest: types.append(numbers.dtype) or write(numbers, *rest)

    for name in ("write_scores", "write_mask"):
        monkeypatch.setattr(scores, name, recorded(getattr(scores, name)))
    monkeypatch.setattr(engine, "write_mask", scores.write_mask)
    return types


@pytest.mark.parametrize("at_once", [1, 2**10, 2**22])
@pytest.mark.parametrize("kind", WRITTEN)
def test_scores_and_masks_are_written_for_some_blocks_at_a_time(normal, monkeypatch, written, kind, at_once):
    monkeypatch.setattr(engine, "COMPUTED_AT_ONCE", at_once)
    call, dtype = WRITTEN[kind]
    check(normal, call)
    assert set(written) == {dtype}


@pytest.mark.parametrize("kind", READ)
def test_masks_and_biases_are_read_without_a_copy(normal, written, kind):
    check(normal, READ[kind])
    assert written == []


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 9), (9, 1), (7, 23), (23, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rule", [Alibi(), Alibi(offset=3), RelativeBias(2, n_buckets=6, max_distance=5)], ids=repr)
def test_a_bias_by_distance_is_right_for_each_distance(normal, rule, dtype, queries, keys):
    if isinstance(rule, RelativeBias):
        with torch.no_grad():
            rule.by_bucket.copy_(normal(6, 2))
    query, key = normal(1, 2, queries, 4).to(dtype), normal(1, 2, keys, 4).to(dtype)
    with torch.no_grad():
        pattern = attend(query, key, key, score=ScaledDot(bias=rule)).pattern
        weights = pattern.scores().double().softmax(dim=-1)
        assert_close(pattern.received().double(), weights.sum(dim=2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", [inf, torch.nan])
def test_a_key_with_a_bias_of_minus_infinity_may_be_nan_or_infinite(normal, number):
    query, key, bias = normal(1, 2, 19, 8), normal(1, 2, 23, 8), normal(1, 2, 19, 23)
    bias[..., 5] = -inf
    expected = attend(query, key, key, score=ScaledDot(bias=bias), ask=Ask())
    key[:, :, 5] = number
    seen = attend(query, key, key.nan_to_num(0, 0, 0), score=ScaledDot(bias=bias), ask=Ask())
    assert torch.equal(seen.pattern.statistics.received, expected.pattern.statistics.received)
    assert torch.equal(seen.pattern.statistics.entropy, expected.pattern.statistics.entropy)
