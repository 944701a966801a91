"""Tests of StickBreaking: against a loop, by hand, the sum of the weights, long rows, and CONTRIBUTING's example."""

import inspect
import math
from pathlib import Path

import pytest
import torch
from oracle import near
from torch.testing import assert_close

from regard import Causal, Padding, StickBreaking, attend
from regard.attention.normalise.stick_breaking import stick_breaking


@pytest.mark.parametrize("mask", [None, Causal(), Padding(torch.tensor([3, 11]))], ids=repr)
def test_weights_equal_a_loop_over_the_rest_of_the_stick(normal, mask):
    query, key, value = normal(2, 3, 5, 7).double(), normal(2, 3, 11, 7).double(), normal(2, 3, 11, 2).double()
    seen = attend(query, key, value, mask=mask, normalise=StickBreaking())
    scores, keep = seen.pattern.scores(), seen.pattern.keep(seen.pattern.grid.whole())
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else keep.expand_as(scores)
    expected = torch.zeros_like(scores)
    for b, h, i in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(5)).tolist():
        left = 1.0
        for j in range(10, -1, -1):
            if keep[b, h, i, j]:
                share = 1 / (1 + math.exp(-float(scores[b, h, i, j])))
                expected[b, h, i, j] = left * share
                left *= 1 - share
    near(seen.pattern.dense(), expected)
    near(seen.context, expected @ value)


def test_by_hand():
    scores = torch.tensor([0.0, math.log(3), 0.0, -math.inf])  # shares 1/2, 3/4, 1/2, none
    assert_close(stick_breaking(scores), torch.tensor([1 / 16, 3 / 8, 1 / 2, 0.0]))


def test_one_minus_the_weights_is_the_product_of_the_shares_that_keys_leave(normal):
    scores = normal(3, 5, 13).double()
    near(1 - stick_breaking(scores).sum(-1), torch.sigmoid(-scores).prod(-1))


def test_long_rows_of_large_scores_neither_overflow_nor_lose_their_digits():
    scores = torch.full((65_536,), -8.0)
    share = 1 / (1 + math.exp(8))
    expected = share * (1 - share) ** torch.arange(65_535, -1, -1, dtype=torch.float64)
    assert_close(stick_breaking(scores).double(), expected, rtol=1e-5, atol=0)
    assert stick_breaking(torch.tensor([5.0, 1e38, -1e38])).tolist() == [0.0, 1.0, 0.0]


def test_a_masked_key_gets_no_gradient_and_gives_none(normal):
    scores = normal(1, 7).double()
    scores[0, 3] = -math.inf
    scores.requires_grad_()
    (gradient,) = torch.autograd.grad(stick_breaking(scores).square().sum(), scores)
    assert gradient.isfinite().all()
    assert gradient[0, 3] == 0


def test_contributing_shows_the_code_of_this_class():
    guide = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    assert inspect.getsource(stick_breaking) in guide
    assert inspect.getsource(StickBreaking) in guide
