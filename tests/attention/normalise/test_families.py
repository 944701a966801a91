"""Laws of some normalisers only, and the limits at which normalisers are equal (laws of all kinds: test_laws.py)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import near

from regard import (
    Entmax,
    GumbelSoftmax,
    Hard,
    Local,
    Sampled,
    Sigmoid,
    Softmax,
    SoftmaxPlusOne,
    Sparsemax,
    StickBreaking,
    StraightThrough,
    TopK,
)
from regard.attention.grid.grid import Grid

HEADS = 3
GRID = Grid(2, HEADS, 5, 7)
SINKS = torch.tensor([0.3, -0.7, 2.0], dtype=torch.float64)
CENTRES = torch.tensor([0.4, 1.0, 5.5], dtype=torch.float64)[None, :, None]

IGNORE_A_SHIFT = [
    Softmax(),
    Softmax(temperature=0.4),
    Softmax(temperature=0.0),
    Sparsemax(),
    Entmax(alpha=1.0),
    Entmax(alpha=1.25),
    Entmax(alpha=2.0),
    Entmax(alpha=3.0),
    TopK(1),
    TopK(3),
    Hard(),
    Hard(Sampled(seed=7)),
    Hard(StraightThrough(Sparsemax())),
    Hard(StraightThrough(GumbelSoftmax(seed=7))),
    GumbelSoftmax(seed=7, temperature=0.6),
    Local(CENTRES, reach=3.3),
]
SEE_A_SHIFT = [Softmax(sinks=SINKS), SoftmaxPlusOne(), Sigmoid(), Sigmoid(bias=-1.3), StickBreaking()]


@pytest.mark.parametrize("normalise", IGNORE_A_SHIFT, ids=repr)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**20), spread=st.sampled_from([0.3, 4.0]), shift=st.sampled_from([-64.0, 0.5, 1024.0]))
def test_a_constant_added_to_all_scores_of_a_query_changes_nothing(normalise, seed, spread, shift):
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(GRID.shape, generator=generator, dtype=torch.float64)
    scores = torch.round(scores * 2**20) / 2**20  # so that the sums are exact
    keep = torch.rand(GRID.shape, generator=generator) < 0.7
    near(normalise(scores + shift, keep, GRID.whole()), normalise(scores, keep, GRID.whole()))


@pytest.mark.parametrize("normalise", SEE_A_SHIFT, ids=repr)
def test_a_constant_added_to_all_scores_changes_the_other_normalisers(normalise, normal):
    scores = normal(*GRID.shape)
    shifted = normalise(scores + 2, None, GRID.whole())
    assert float((shifted - normalise(scores, None, GRID.whole())).abs().max()) > 0.01


@pytest.mark.parametrize(
    ("limit", "family"),
    [
        (Entmax(alpha=1 + 1e-9), Softmax()),
        (Entmax(alpha=1e6), Hard()),
        (Softmax(temperature=1e-4), Hard()),
        (TopK(7), Softmax()),
        (TopK(1), Hard()),
        (GumbelSoftmax(seed=7, temperature=1e-5), Hard(Sampled(seed=7))),
        (Hard(Sampled(seed=7, temperature=1e-6)), Hard()),
        (Local(CENTRES, reach=1e6), Softmax()),
        (Softmax(sinks=torch.full((HEADS,), -math.inf)), Softmax()),
    ],
    ids=repr,
)
def test_normalisers_become_others_at_their_limits(normal, limit, family):
    scores = normal(*GRID.shape, dtype=torch.float64)
    found, expected = limit(scores, None, GRID.whole()), family(scores, None, GRID.whole())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
