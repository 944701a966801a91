"""Tests of the C kernel's report that a context may be wrong because of NaN or overflow, and must be checked."""

import math

import pytest
import torch

from regard import Ask, Causal, ScaledDot, attend
from regard.attention.statistics.cpu import engine, plan

Q, K, D = 37, 53, 7


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make the kernel use blocks of a few queries and keys, so that only some blocks are doubtful."""
    monkeypatch.setattr(plan, "BLOCK_QUERIES", 5)
    monkeypatch.setattr(plan, "SCORES_IN_CACHE", 85)


def inputs():
    random = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=random) for shape in ((2, 4, Q, D), (2, 2, K, D), (1, 2, K, D + 2))]


def with_number(tensor, place, number):
    """Return a copy of a tensor with another number at one place."""
    changed = tensor.clone()
    changed[place] = number
    return changed


LAST_KEY = (0, 1, K - 1)
"""The key that under `Causal()` only the last query may attend to."""

DOUBTFUL = {
    "ordinary numbers": (lambda q, k, v: (q, k, v), {}, False),
    "NaN in the last number of a value": (
        lambda q, k, v: (q, k, with_number(v, (*LAST_KEY, D + 1), math.nan)),
        {},
        True,
    ),
    "infinity in a value": (lambda q, k, v: (q, k, with_number(v, (*LAST_KEY, 3), math.inf)), {}, True),
    "sums that overflow": (lambda q, k, v: (q, k, 0 * v + 3e38), {}, True),
    "scores that overflow to -infinity": (lambda q, k, v: (0 * q + 1e30, 0 * k - 1e30, v), {}, True),
    "a first number of 0": (lambda q, k, v: (q, k, with_number(v, (..., 0), 0.0)), {}, True),
    "a scale that hides overflow": (lambda q, k, v: (q, k, v), {"score": ScaledDot(scale=1e-30)}, True),
    "no keys": (lambda q, k, v: (q, k, v), {"mask": Causal(-Q)}, False),
}
"""By name: a function that changes queries, keys and values; the options; whether the context is doubtful."""


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_context_that_may_be_wrong_is_doubtful(name):
    change, options, doubtful = DOUBTFUL[name]
    call = attend(*change(*inputs()), **{"mask": Causal(), **options}).pattern.call
    # attend may have converted them to float64
    call = call.changed(**dict(zip(("query", "key", "value"), change(*inputs()), strict=True)))
    assert engine.context_and_statistics(call, Ask(), contexts=True)[2] is doubtful


@pytest.mark.parametrize("name", [name for name in DOUBTFUL if "value" in name or "sums" in name])
def test_values_do_not_make_statistics_doubtful(name):
    call = attend(*DOUBTFUL[name][0](*inputs()), mask=Causal()).pattern.call
    assert engine.compute(call.changed(value=call.value.float()), Ask(), contexts=False).needs_check is False
