"""Sigmoid: against torch.sigmoid and a loop, its bias, by hand."""

import math

import pytest
import torch
from oracle import near, row
from refusals import refusal

from regard import Causal, Sigmoid, attend
from regard.attention.grid.grid import Grid

WHOLE = Grid(1, 2, 3, 7).whole()


def test_by_hand():
    near(Sigmoid(bias=0.0)(row(0.0, math.log(3), -math.inf), None, WHOLE), row(1 / 2, 3 / 4, 0.0))
    near(Sigmoid(bias=math.log(2))(row(0.0, math.log(3), -math.inf), None, WHOLE), row(2 / 3, 6 / 7, 0.0))
    # None: -log 2 here, since two keys are seen
    near(Sigmoid()(row(0.0, math.log(6), -math.inf), None, WHOLE), row(1 / 3, 3 / 4, 0.0))
    keep = torch.tensor([True, True, False, True])[None, None, None]
    near(Sigmoid()(row(0.0, math.log(6), 5.0, 0.0), keep, WHOLE), row(1 / 4, 2 / 3, 0.0, 1 / 4))


@pytest.mark.parametrize("bias", [None, -1.3, 0.0])
def test_weights_are_the_sigmoid_of_each_score(normal, bias):
    query, key, value = (normal(2, 3, n, 11, dtype=torch.float64) for n in (5, 7, 7))
    found = attend(query, key, value, mask=Causal(), normalise=Sigmoid(bias=bias)).pattern.dense()
    scores = query @ key.mT / math.sqrt(11)
    for i in range(5):
        seen = i + 3
        at = -math.log(seen) if bias is None else bias
        near(found[:, :, i, :seen], torch.sigmoid(scores[:, :, i, :seen] + at))
        assert not bool(found[:, :, i, seen:].any())


def test_without_a_mask_the_bias_is_the_papers(normal):
    query, key, value = (normal(2, 3, 7, 11) for _ in range(3))
    ours, papers = (attend(query, key, value, normalise=Sigmoid(b)).pattern.dense() for b in (None, -math.log(7)))
    torch.testing.assert_close(ours, papers)


@pytest.mark.parametrize("bias", [math.inf, -math.inf, math.nan])
def test_a_bias_that_is_not_finite_is_refused(bias):
    assert refusal(ValueError, lambda: Sigmoid(bias=bias)) == (
        f"bias={bias} is added to every score, so it must be finite; "
        "None = -log(number of keys that the query may attend to)."
    )
