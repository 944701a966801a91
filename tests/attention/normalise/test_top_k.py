"""Top-k: against a loop, what happens to ties, its gradient, by hand."""

import math

import pytest
import torch
from oracle import near, row
from refusals import refusal

from regard import TopK
from regard.attention.grid.grid import Grid

WHOLE = Grid(1, 2, 3, 7).whole()


def test_by_hand():
    scores = row(0.0, math.log(2), math.log(5), math.log(3))
    near(TopK(1)(scores, None, WHOLE), row(0, 0, 1, 0))
    near(TopK(2)(scores, None, WHOLE), row(0, 0, 5 / 8, 3 / 8))
    near(TopK(3)(scores, None, WHOLE), row(0, 2 / 10, 5 / 10, 3 / 10))
    for n in (4, 5, 99):
        near(TopK(n)(scores, None, WHOLE), row(1 / 11, 2 / 11, 5 / 11, 3 / 11))
    keep = torch.tensor([True, True, False, True])[None, None, None]
    near(TopK(2)(scores, keep, WHOLE), row(0, 2 / 5, 0, 3 / 5))


def test_all_scores_equal_to_the_nth_largest_get_weight():
    near(TopK(2)(row(1.0, 7.0, 1.0, 1.0, 0.0), None, WHOLE)[..., [0, 2, 3]] > 0, torch.ones(1, 1, 1, 3) > 0)
    near(TopK(1)(row(4.0, -1.0, 4.0), None, WHOLE), row(0.5, 0, 0.5))
    # with fewer than n visible keys, no hidden key gets weight
    near(TopK(3)(row(4.0, -math.inf, 4.0, -math.inf), None, WHOLE), row(0.5, 0, 0.5, 0))


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_weights_are_the_softmax_of_the_n_largest_scores(normal, n):
    scores = normal(1, 2, 3, 7, dtype=torch.float64)
    found = TopK(n)(scores, None, WHOLE)
    for here, there in zip(found.flatten(0, 2), scores.flatten(0, 2).tolist(), strict=True):
        kept = sorted(there, reverse=True)[:n]
        total = sum(map(math.exp, kept))
        near(here, here.new_tensor([math.exp(score) / total if score in kept else 0.0 for score in there]))


def test_gradients_are_right(normal):
    scores = normal(1, 2, 3, 7, dtype=torch.float64).requires_grad_()
    keep = (torch.arange(7) % 3 != 1)[None, None, None]
    for n in (1, 3, 6):
        assert torch.autograd.gradcheck(lambda x, n=n: TopK(n)(x, keep, WHOLE), scores)


@pytest.mark.parametrize("n", [0, -3])
def test_fewer_than_one_is_refused(n):
    assert refusal(ValueError, lambda: TopK(n)) == (
        f"n={n} is how many of the largest scores get weight, so it must be at least 1."
    )


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("n", [2.5, True, "3"])
def test_a_number_that_is_not_whole_is_refused(n):
    assert refusal(TypeError, lambda: TopK(n)) == (
        f"n={n!r} is not a number of keys; it takes a whole number, such as TopK(8)."
    )
