"""Gumbel-softmax: against torch's with the same noise, how often each key is largest, its limits."""

import math
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from oracle import near
from refusals import refusal

from regard import GumbelSoftmax, Hard, StraightThrough, attend
from regard.attention.grid.grid import Grid
from regard.attention.normalise.noise import gumbel

WHOLE = Grid(1, 2, 3, 7).whole()


def with_our_noise(scores, seed, temperature, hard):
    """Return torch's gumbel_softmax, computed with our random numbers instead of its own."""
    noise = gumbel(seed, WHOLE, scores.detach())
    with patch.object(torch.Tensor, "exponential_", lambda drawn: drawn.copy_(torch.exp(-noise))):
        return F.gumbel_softmax(scores, temperature, hard)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_weights_and_gradients_are_those_of_torch_with_the_same_noise(normal, temperature, hard):
    scores, upstream = (normal(1, 2, 3, 7, dtype=torch.float64) for _ in range(2))
    scores.requires_grad_()
    soft = GumbelSoftmax(seed=7, temperature=temperature)
    found = (Hard(StraightThrough(soft)) if hard else soft)(scores, None, WHOLE)
    expected = with_our_noise(scores, 7, temperature, hard)
    near(found, expected)
    near(*(torch.autograd.grad(x, scores, upstream)[0] for x in (found, expected)))


def test_equal_seeds_draw_equal_weights_and_other_seeds_others(normal):
    query, key, value = normal(2, 3, 5, 11), normal(2, 3, 7, 11), normal(2, 3, 7, 13)
    first, again, other = (attend(query, key, value, normalise=GumbelSoftmax(seed)) for seed in (7, 7, 8))
    assert torch.equal(first.context, again.context)
    torch.testing.assert_close(first.context, first.pattern.dense() @ value)
    assert float((first.context - other.context).abs().max()) > 0.1


@pytest.mark.parametrize("temperature", [0.0, -0.5, math.inf, math.nan])
def test_a_temperature_out_of_range_is_refused(temperature):
    assert refusal(ValueError, lambda: GumbelSoftmax(seed=7, temperature=temperature)) == (
        f"temperature={temperature} divides the noisy scores, so it must be above 0 and finite; "
        "for all weight on one key use Hard(Sampled(seed=7))."
    )
