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
    """Make the pyramid process keys in two parts, and queries in several."""
    monkeypatch.setattr(module, "KEYS_AT_ONCE", 64)
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


def allowed(pattern: Pattern, head: int | None) -> Tensor:
    keep = pattern.keep(pattern.grid.whole())
    if keep is None:
        return torch.ones(QUERIES, KEYS, dtype=torch.bool)
    by_head = keep.expand(pattern.shape)[0]
    return by_head.any(dim=0) if head is None else by_head[head]


def check(pattern: Pattern, weights: Tensor, head: int | None, tolerance: float = 2e-6) -> None:
    """Fail unless every level, by mean and by maximum, equals the pooled float64 weights."""
    pyramid = Pyramid(pattern, head)
    for level in range(8):
        if level == STORED_LEVEL:
            for row in range(len(pyramid.row_is_stored)):
                pyramid.compute(row)
        rows, columns = map(range, pyramid.shape(level))
        for pool in ("mean", "max"):
            wanted = pooled(weights, allowed(pattern, head), level, pool)
            seen = pyramid.read(level, rows, columns, pool)
            assert seen.dtype == torch.float32
            torch.testing.assert_close(seen, wanted, rtol=0, atol=tolerance, equal_nan=True)


MASKS = {
    "none": None,
    "causal": Causal(),
    "causal, first queries blind": Causal(offset=-40),
    "window": Window(before=20, after=5),
    "causal and padding": Causal() & Padding(torch.tensor([59])),
    "two ranges": Window(before=3, after=0) | Keep(torch.arange(KEYS) < 2),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_softmax_of_float64_is_pooled(mask):
    pattern = made(mask=mask)
    query, key = pattern.query.double(), pattern.key.double().repeat_interleave(2, dim=1)
    scores = (query @ key.mT / math.sqrt(WIDTH))[0, 3].masked_fill(~allowed(pattern, 3), -math.inf)
    check(pattern, torch.softmax(scores, dim=-1).nan_to_num(0.0), head=3)


@pytest.mark.parametrize(
    "stages",
    [
        {"normalise": Softmax(temperature=0.5, sinks=torch.tensor([0.0, 1.0, 2.0, 3.0]))},
        {"score": ScaledDot(scale=0.3, softcap=2.0, bias=Alibi()), "mask": Causal()},
        {"normalise": Softmax(temperature=0.0)},
        {"normalise": Sparsemax(), "mask": Causal(offset=-10)},
    ],
)
def test_other_formulas_equal_the_dense_pattern(stages):
    pattern = made(**stages)
    check(pattern, made(torch.float64, **stages).dense()[0, 2], head=2)


OWN_MASKS = Keep(torch.rand(1, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(3)) < 0.02)


@pytest.mark.parametrize("mask", [None, Causal(), Window(before=20, after=5), OWN_MASKS], ids=repr)
def test_the_mean_over_heads_is_pooled(mask):
    pattern = made(mask=mask)
    query, key = pattern.query.double(), pattern.key.double().repeat_interleave(2, dim=1)
    masked = [~allowed(pattern, head) for head in range(HEADS)]
    scores = (query @ key.mT / math.sqrt(WIDTH))[0].masked_fill(torch.stack(masked), -math.inf)
    check(pattern, torch.softmax(scores, dim=-1).nan_to_num(0.0).mean(dim=0), head=None)


def test_the_mean_over_heads_of_another_normaliser_is_pooled():
    pattern = made(mask=Causal(), normalise=Sparsemax())
    check(pattern, pattern.dense()[0].double().mean(dim=0), head=None)


SHOWN = [[0, 3, *range(5, 40), *range(43, 71)], [1, *range(4, 31), *range(34, 80), 82]]
"""Positions of queries and keys, of which some at both ends and in the middle are left out."""


@pytest.mark.parametrize("mask", [None, Causal(), Causal(offset=-40), Window(before=20, after=5), OWN_MASKS], ids=repr)
@pytest.mark.parametrize("head", [2, None])
def test_tokens_that_are_not_shown_are_left_out_of_every_level(mask, head):
    pattern = made(mask=mask)
    query, key = pattern.query.double(), pattern.key.double().repeat_interleave(2, dim=1)
    keep = torch.stack([allowed(pattern, one) for one in range(HEADS)])
    weights = torch.softmax((query @ key.mT / math.sqrt(WIDTH))[0].masked_fill(~keep, -math.inf), dim=-1).nan_to_num(
        0.0
    )
    weights, keep = (weights.mean(dim=0), keep.any(dim=0)) if head is None else (weights[head], keep[head])
    weights, keep = (full[SHOWN[0]][:, SHOWN[1]] for full in (weights, keep))
    pyramid = Pyramid(pattern, head, (SHOWN[0], SHOWN[1]))
    for level in range(8):
        if level == STORED_LEVEL:
            for row in range(len(pyramid.row_is_stored)):
                pyramid.compute(row)
        for pool in ("mean", "max"):
            seen = pyramid.read(level, *map(range, pyramid.shape(level)), pool)
            torch.testing.assert_close(seen, pooled(weights, keep, level, pool), rtol=0, atol=2e-6, equal_nan=True)


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
