"""Tests of scaled dot products: the formula by hand, block by block, and every refusal."""

import math

import numpy as np
import pytest
import torch
from oracle import near
from refusals import refusal

from regard import Dot, ScaledDot, attend
from regard.attention.grid.grid import Grid

GRID = Grid(2, 3, 5, 7)


@pytest.fixture
def rows(normal):
    return normal(2, 3, 5, 11, dtype=torch.float64), normal(2, 3, 7, 11, dtype=torch.float64)


def test_by_hand(rows):
    query, key = rows
    for b, h, i, j in [(0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2)]:
        product = sum(float(x * y) for x, y in zip(query[b, h, i], key[b, h, j], strict=True))
        bias = torch.zeros(GRID.shape, dtype=torch.float64)
        bias[b, h, i, j] = 0.7
        expected = {
            Dot(): product,
            ScaledDot(): product / math.sqrt(11),
            ScaledDot(scale=-0.3): -0.3 * product,
            ScaledDot(softcap=1.3): 1.3 * math.tanh(product / math.sqrt(11) / 1.3),
            ScaledDot(scale=2.0, softcap=1.3, bias=bias): 1.3 * math.tanh(2 * product / 1.3) + 0.7,
        }
        for score, number in expected.items():
            found = score(query, key, GRID.whole())[b, h, i, j]
            near(found, torch.tensor(number, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 7), (5, 1), (3, 1, 7), (2, 1, 5, 7), (2, 3, 5, 7)])
def test_a_tile_has_its_own_part_of_the_bias(rows, normal, shape):
    query, key = rows
    bias = normal(*shape, dtype=torch.float64)
    score = ScaledDot(bias=bias)
    score.check(GRID)
    tile = GRID.whole().part(batch=range(1, 2), heads=torch.tensor([2, 0]), queries=range(0, 5, 2), keys=range(3, 6))
    part = score(query[1:, [2, 0], ::2], key[1:, [2, 0], 3:6], tile)
    whole = ScaledDot()(query, key, GRID.whole()) + bias
    near(part, whole[1:, [2, 0], ::2, 3:6])


def test_a_bias_takes_the_type_of_the_query(normal):
    bias = normal(5, 7)
    assert ScaledDot(bias=bias).of_type(normal(2).half()).bias.dtype == torch.float16
    assert ScaledDot(bias=bias).of_type(normal(2)).bias is bias
    plain = ScaledDot(scale=0.5)
    assert plain.of_type(normal(2).half()) is plain


@pytest.mark.parametrize("softcap", [0.0, -1.5, math.nan, math.inf, 1e300])
def test_a_softcap_that_bounds_nothing_is_refused(softcap):
    assert refusal(ValueError, lambda: ScaledDot(softcap=softcap)) == (
        f"softcap={softcap} bounds the scores to ±softcap, so it must be above 0 and finite in float32; "
        "None = no bound."
    )


@pytest.mark.parametrize("scale", [2, np.float32(2), np.array(2.0), torch.tensor(2.0)], ids=repr)
def test_a_scale_may_be_a_number_of_any_type(normal, without_type_checks, scale):
    query, key = normal(1, 2, 17, 5), normal(1, 2, 19, 5)
    seen = attend(query, key, key, score=ScaledDot(scale=scale))
    assert torch.equal(seen.context, attend(query, key, key, score=ScaledDot(scale=2.0)).context)
    assert repr(seen.pattern.score) == "ScaledDot(scale=2.0)"


def test_a_scale_that_is_to_be_learned_is_refused(without_type_checks):
    assert refusal(TypeError, lambda: ScaledDot(scale=torch.nn.Parameter(torch.tensor(2.0)))) == (
        "scale is a tensor that requires gradients, but ScaledDot has a constant scale; give float(scale), "
        "or score=Cosine(scale), whose scale can be learned."
    )


@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf, np.float32("nan"), torch.tensor(math.inf)])
def test_a_scale_that_is_not_finite_is_refused(without_type_checks, scale):
    assert refusal(ValueError, lambda: ScaledDot(scale=scale)) == (
        f"scale={float(scale)} multiplies every product, so it must be finite; None = 1 / sqrt(d_key)."
    )


@pytest.mark.parametrize("scale", ["2", torch.ones(2)], ids=repr)
def test_a_scale_that_is_no_number_is_refused(without_type_checks, scale):
    assert refusal(TypeError, lambda: ScaledDot(scale=scale)) == (
        f"scale is a {type(scale).__name__}; it takes a number, or None = 1 / sqrt(d_key)."
    )


def test_a_boolean_bias_is_refused(without_type_checks):
    assert refusal(TypeError, lambda: ScaledDot(bias=torch.ones(3, dtype=torch.bool))) == (
        "bias has dtype torch.bool; a bias is floating-point numbers that are added to the scores. "
        "To say which keys a query may attend to, give a mask: mask=…."
    )


@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 1, 7), (1, 2, 3, 5, 7), (0,)])
def test_a_bias_that_does_not_fit_is_refused(shape):
    assert refusal(ValueError, lambda: ScaledDot(bias=torch.zeros(shape)).check(GRID)) == (
        f"bias of shape {list(shape)} does not broadcast to [2, 3, 5, 7] (batch, heads, queries, keys); "
        "every axis must have that size or 1."
    )
