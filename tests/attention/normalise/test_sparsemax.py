"""Sparsemax: against the entmax package and a projection by brute force, its gradient, by hand."""

import itertools
import math

import pytest
import torch
from entmax import sparsemax as theirs
from oracle import near, row

from regard import Sparsemax
from regard.attention.grid.grid import Grid

WHOLE = Grid(1, 2, 3, 7).whole()


def weights(scores, keep=None):
    return Sparsemax()(scores, keep, WHOLE)


def by_brute_force(scores):
    """Return the point of the probability simplex nearest to the scores, found by projecting onto all its faces."""
    feet = []
    for kept in itertools.product([False, True], repeat=len(scores)):
        if any(kept):
            threshold = (sum(itertools.compress(scores, kept)) - 1) / sum(kept)
            foot = [score - threshold if keeps else 0.0 for score, keeps in zip(scores, kept, strict=True)]
            if min(foot) >= 0:
                feet.append((math.dist(foot, scores), foot))
    return min(feet)[1]


def test_by_hand():
    near(weights(row(0.0, 0.0)), row(0.5, 0.5))
    near(weights(row(3.0, 2.5, 0.0)), row(0.75, 0.25, 0.0))
    near(weights(row(1.0, 0.0, -5.0)), row(1.0, 0.0, 0.0))  # 1 below the largest is just too far
    near(weights(row(0.3, 0.2, 0.1)), row(1.3 / 3, 1 / 3, 0.7 / 3))


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.0, 3.0])
def test_weights_are_the_projection_onto_the_probability_simplex(normal, spread):
    scores = spread * normal(1, 2, 3, 7, dtype=torch.float64)
    found = weights(scores)
    near(found, theirs(scores, dim=-1))
    for here, there in zip(found.flatten(0, 2), scores.flatten(0, 2).tolist(), strict=True):
        near(here, torch.tensor(by_brute_force(there), dtype=torch.float64))


def test_weights_of_many_keys_in_float32_are_those_of_float64(normal):
    scores = normal(1, 1, 3, 4099)
    for scale in (0.001, 0.1, 1.0):
        found = weights(scores * scale)
        torch.testing.assert_close(found.double(), theirs((scores * scale).double(), dim=-1), rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(found.double().sum(-1), torch.ones(1, 1, 3, dtype=torch.float64), rtol=0, atol=1e-5)


def test_gradients_are_those_of_the_entmax_package(normal):
    scores = normal(1, 2, 3, 7, dtype=torch.float64).requires_grad_()
    keep = torch.rand(1, 2, 3, 7, generator=torch.Generator().manual_seed(2)) < 0.7
    keep[0, 1, 2] = False
    assert torch.autograd.gradcheck(weights, scores)
    assert torch.autograd.gradcheck(lambda x: weights(x, keep), scores)
    upstream = normal(1, 2, 3, 7, dtype=torch.float64)
    (found,) = torch.autograd.grad(weights(scores), scores, upstream)
    (expected,) = torch.autograd.grad(theirs(scores, dim=-1), scores, upstream)
    near(found, expected)


def test_scores_of_minus_infinity_get_no_weight_and_no_gradient():
    scores = row(0.2, -math.inf, 0.0, -1e300).requires_grad_()
    found = weights(scores)
    near(found, row(0.6, 0.0, 0.4, 0.0))
    (gradient,) = torch.autograd.grad(found[..., 0].sum(), scores)
    near(gradient, row(0.5, 0.0, -0.5, 0.0))
