"""Tests of hard attention: the largest weight, ties, how often each key is drawn, gradients, refusals."""

import math

import pytest
import torch
from oracle import near, row
from refusals import refusal
from torch import nn
from torch.testing import assert_close

from regard import Causal, Hard, Largest, Sampled, Softmax, Sparsemax, StraightThrough, attend
from regard.attention.grid.grid import Grid
from regard.attention.normalise.normaliser import Normaliser

WHOLE = Grid(1, 2, 3, 7).whole()
CHOICES = [Largest(), Sampled(seed=7), StraightThrough()]


def test_by_hand():
    scores, keep = row(1.0, 3.0, 2.0), torch.tensor([True, False, True])[None, None, None]
    for normalise in (Hard(), Hard(StraightThrough()), Hard(StraightThrough(Sparsemax()))):
        near(normalise(scores, None, WHOLE), row(0, 1, 0))
        near(normalise(scores, keep, WHOLE), row(0, 0, 1))
        near(normalise(row(4.0, 5.0, 5.0), None, WHOLE), row(0, 1, 0))  # of equals, the first
    only = Hard(Sampled(seed=7))(row(-math.inf, 3.0, -math.inf), None, Grid(1, 1, 1, 3).whole())
    near(only, row(0, 1, 0))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_each_key_is_drawn_as_often_as_softmax_says(temperature):
    """Chi-square of 20,011 queries with the same scores; five standard deviations of what chance would give."""
    scores = row(0.0, 1.0, -1.0, 2.0, -math.inf)
    n = 20011
    drawn = Hard(Sampled(seed=5, temperature=temperature))(scores.expand(1, 1, n, 5), None, Grid(1, 1, n, 5).whole())
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    counts = drawn.sum(dim=(0, 1, 2))
    expected = n * (scores[0, 0, 0] / temperature).softmax(-1)
    assert counts[4] == 0
    chi_square = float(((counts - expected) ** 2 / expected)[:4].sum())
    assert chi_square < 3 + 5 * math.sqrt(2 * 3)


def test_queries_heads_and_items_draw_independently():
    zeros = torch.zeros(3, 5, 7, 11)
    keys = Hard(Sampled(seed=7))(zeros, None, Grid(3, 5, 7, 11).whole()).argmax(-1)
    for axis in range(3):
        assert not torch.equal(keys.narrow(axis, 0, 1), keys.narrow(axis, 1, 1))
    other = Hard(Sampled(seed=8))(zeros, None, Grid(3, 5, 7, 11).whole()).argmax(-1)
    assert 0 < int((other == keys).sum()) < keys.numel() / 3


@pytest.mark.parametrize("soft", [Softmax(), Softmax(temperature=0.5), Sparsemax()])
def test_straight_through_has_the_gradient_of_the_soft_weights(normal, soft):
    scores, upstream = (normal(1, 2, 3, 7, dtype=torch.float64) for _ in range(2))
    scores.requires_grad_()
    keep = (torch.arange(7) % 3 != 1)[None, None, None]
    hard = Hard(StraightThrough(soft))(scores, keep, WHOLE)
    assert set(hard.unique().tolist()) == {0.0, 1.0}
    gradients = (torch.autograd.grad(x, scores, upstream)[0] for x in (hard, soft(scores, keep, WHOLE)))
    near(*gradients)


@pytest.mark.parametrize("choose", [Largest(), Sampled(seed=7)])
def test_values_have_gradients_and_queries_and_keys_have_none(normal, choose):
    query, key, value = (x.requires_grad_() for x in (normal(2, 3, 5, 11), normal(2, 3, 7, 11), normal(2, 3, 7, 13)))
    seen = attend(query, key, value, normalise=Hard(choose))
    gradients = torch.autograd.grad(seen.context.sum(), (query, key, value), allow_unused=True)
    assert gradients[0] is None or not bool(gradients[0].any())
    assert gradients[1] is None or not bool(gradients[1].any())
    torch.testing.assert_close(gradients[2], seen.pattern.received()[..., None].expand(2, 3, 7, 13))


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("choose", ["sampled", True, Softmax(), Sampled])
def test_a_choice_of_another_type_is_refused(choose):
    assert refusal(TypeError, lambda: Hard(choose)) == (
        f"choose is {choose!r}; it takes Largest(), Sampled(seed=…) or StraightThrough(Softmax())."
    )


@pytest.mark.parametrize("temperature", [0.0, -0.5, math.inf, math.nan])
def test_a_temperature_out_of_range_is_refused(temperature):
    assert refusal(ValueError, lambda: Sampled(seed=7, temperature=temperature)) == (
        f"temperature={temperature} divides the scores, so it must be above 0 and finite; "
        "for the largest score use Hard(Largest())."
    )


@pytest.mark.usefixtures("without_type_checks")
def test_a_seed_out_of_range_is_refused():
    assert refusal(ValueError, lambda: Sampled(seed=-1)) == (
        "seed=-1 must be a whole number from 0 to 2**63 - 1, such as the training step."
    )


def test_soft_weights_that_do_not_fit_are_refused(normal):
    x = normal(2, 3, 5, 11)
    assert (
        refusal(ValueError, lambda: attend(x, x, x, normalise=Hard(StraightThrough(Softmax(sinks=torch.zeros(2))))))
        == "sinks of shape [2] with 3 heads; give one number for each head."
    )


def test_straight_through_takes_a_normaliser_of_ones_own_that_is_a_module():
    class Sharp(nn.Module, Normaliser):
        """Softmax with a learned factor: it needs the scores before the mask, or the factor's gradient is NaN."""

        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.tensor(3.0, dtype=torch.float64))

        def forward(self, scores, keep, tile):
            return Softmax()(self.factor * scores, keep, tile)

    x, sharp = torch.randn(1, 2, 7, 5, dtype=torch.float64), Sharp()
    seen = attend(x, x, x, mask=Causal(), normalise=Hard(StraightThrough(sharp)))
    assert_close(seen.pattern.dense(), attend(x, x, x, mask=Causal(), normalise=Hard()).pattern.dense())
    seen.context.sum().backward()
    scores = (x @ x.mT / 5**0.5).masked_fill(~torch.ones(7, 7, dtype=torch.bool).tril(), -torch.inf)
    weights = torch.softmax(3 * scores, dim=-1)
    of_values = x.sum(dim=-1)[:, :, None]  # the gradient of the sum of all contexts with respect to each weight
    centred = of_values - (weights * of_values).sum(dim=-1, keepdim=True)
    assert_close(sharp.factor.grad, (weights * centred * scores.masked_fill(scores.isinf(), 0)).sum())
