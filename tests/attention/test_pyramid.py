"""The pyramid of a head's weights: every level against weights in float64, pooled by torch."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from refusals import refusal
from torch import Tensor

from regard import Alibi, Causal, Keep, Padding, ScaledDot, Softmax, Sparsemax, Window, attend
from regard.attention import pyramid as module
from regard.attention.pattern import Pattern
from regard.attention.pyramid import STORED_LEVEL, Pyramid

QUERIES, KEYS, HEADS, WIDTH = 71, 83, 4, 7


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pyramid process queries in several parts."""
    monkeypatch.setattr(module, "WEIGHTS_AT_ONCE", 1000)


def made(dtype: torch.dtype = torch.float32, **stages: Any) -> Pattern:
    """Return a pattern of four query heads and two key heads, whose large scores give weights near 0 and near 1."""
    generator = torch.Generator().manual_seed(5)
    query = 3 * torch.randn(1, HEADS, QUERIES, WIDTH, generator=generator)
    key, value = torch.randn(2, 1, 2, KEYS, WIDTH, generator=generator).unbind()
    return attend(query.to(dtype), key.to(dtype), value.to(dtype), **stages).pattern


def pooled(weights: Tensor, keep: Tensor, level: int, pool: str) -> Tensor:
    """Return the mean or largest weight of each square, by torch's 2d pooling; NaN if all pairs are masked out."""
    window = {"kernel_size": 2**level, "ceil_mode": True}
    allowed = F.max_pool2d(keep[None].double(), **window)[0] > 0
    if pool == "mean":
        squares = F.avg_pool2d(weights[None], **window, count_include_pad=False)[0]
    else:
        squares = F.max_pool2d(weights.masked_fill(~keep, -1.0)[None], **window)[0]
    return squares.masked_fill(~allowed, math.nan).float()


def exact(pattern: Pattern) -> tuple[Tensor, Tensor]:
    """Return the softmax of every head in float64, and which keys it may attend to [heads queries keys]."""
    keep = pattern.keep(pattern.grid.whole())
    keep = torch.ones(HEADS, QUERIES, KEYS).bool() if keep is None else keep.expand(pattern.shape)[0]
    query, key = pattern.query.double(), pattern.key.double().repeat_interleave(2, dim=1)
    scores = (query @ key.mT / math.sqrt(WIDTH))[0].masked_fill(~keep, -math.inf)
    return scores.softmax(dim=-1).nan_to_num(0.0), keep


def check(pyramid: Pyramid, weights: Tensor, keep: Tensor) -> None:
    """Fail unless every level, by mean and by maximum, equals the pooled float64 weights."""
    for level in range(8):
        if level == STORED_LEVEL:
            for row in range(len(pyramid.row_is_stored)):
                pyramid.compute(row)
        rows, columns = map(range, pyramid.shape(level))
        for pool in ("mean", "max"):
            seen, wanted = pyramid.read(level, rows, columns, pool), pooled(weights, keep, level, pool)
            torch.testing.assert_close(seen, wanted, rtol=0, atol=2e-6, equal_nan=True)


MASKS = {
    "none": None,
    "causal": Causal(),
    "causal, first queries blind": Causal(offset=-40),
    "window": Window(before=20, after=5),
    "causal and padding": Causal() & Padding(torch.tensor([59])),
    "two ranges": Window(before=3, after=0) | Keep(torch.arange(KEYS) < 2),
    "by head": Keep(torch.rand(1, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(3)) < 0.02),
}


OTHERS = {
    "temperature and sinks": {"normalise": Softmax(temperature=0.5, sinks=torch.tensor([0.0, 1.0, 2.0, 3.0]))},
    "softcap and bias": {"score": ScaledDot(scale=0.3, softcap=2.0, bias=Alibi()), "mask": Causal()},
    "temperature 0": {"normalise": Softmax(temperature=0.0)},
    "sparsemax": {"normalise": Sparsemax(), "mask": Causal(offset=-10)},
}
SHOWN = [0, 3, *range(5, 40), *range(43, 71)], [1, *range(4, 31), *range(34, 80), 82]
"""Positions of queries and keys, of which some at both ends and in the middle are left out."""


@pytest.mark.parametrize("shown", [None, SHOWN], ids=["all tokens", "some tokens"])
@pytest.mark.parametrize("head", [3, None])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_levels_are_pooled_from_the_softmax_of_a_head_or_the_mean_over_heads(mask, head, shown):
    pattern = made(mask=mask)
    weights, keep = exact(pattern)
    weights, keep = (weights.mean(dim=0), keep.any(dim=0)) if head is None else (weights[head], keep[head])
    if shown is not None:
        weights, keep = (full[shown[0]][:, shown[1]] for full in (weights, keep))
    check(Pyramid(pattern, head, shown), weights, keep)


@pytest.mark.parametrize("head", [2, None])
@pytest.mark.parametrize("stages", OTHERS.values(), ids=OTHERS)
def test_levels_of_other_formulas_are_pooled_from_the_dense_pattern(stages, head):
    pattern = made(**stages)
    weights, (_, keep) = made(torch.float64, **stages).dense()[0], exact(pattern)
    weights, keep = (weights.mean(dim=0), keep.any(dim=0)) if head is None else (weights[head], keep[head])
    check(Pyramid(pattern, head), weights, keep)


def test_a_part_equals_that_part_of_the_level():
    pattern = made(mask=Causal())
    whole = Pyramid(pattern, head=1).read(2, range(18), range(21), "max")
    part = Pyramid(pattern, head=1).read(2, range(9, 13), range(3, 19), "max")
    torch.testing.assert_close(part, whole[9:13, 3:19], equal_nan=True)


def test_a_low_level_computes_only_the_rows_that_it_needs():
    pyramid = Pyramid(made(), head=0)
    pyramid.read(1, range(16, 20), range(3), "mean")
    assert pyramid.row_is_stored == [False, True, False]


def test_a_part_in_which_nothing_may_be_seen_computes_nothing():
    pyramid = Pyramid(made(mask=Causal(offset=0)), head=0)
    assert pyramid.read(0, range(9), range(70, 80), "max").isnan().all()
    assert pyramid.row_is_stored == [False, False, False]


def test_a_high_level_needs_every_row():
    pyramid = Pyramid(made(), head=0)
    pyramid.compute(1)
    assert refusal(ValueError, lambda: pyramid.read(6, range(1), range(1), "mean")) == (
        "level 6 needs all rows of level 5; call compute(row) for 2 more rows."
    )


def test_a_score_that_is_nan_is_refused():
    pattern = made()
    pattern.query[0, 2, 40, 0] = math.nan
    broken = attend(pattern.query, pattern.key, pattern.value).pattern
    assert refusal(ValueError, lambda: Pyramid(broken, head=2).compute(1)) == (
        "a score is NaN or infinite, so the head has no map; check the model's parameters."
    )
    Pyramid(broken, head=2).compute(0)
