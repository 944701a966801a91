"""The distance between patterns against whole matrices in float64."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Sigmoid, Softmax, Window, attend
from regard.effects import distance
from regard.effects.distance import pattern_distance


@pytest.mark.parametrize("block", [1, 60, 2**22])
def test_distances_are_those_of_the_whole_matrices(normal, monkeypatch, block):
    monkeypatch.setattr(distance, "BLOCK_WEIGHTS", block)
    patterns = [
        attend(normal(2, 3, 7, 5), normal(2, 3, 7, 5), normal(2, 3, 7, 5), mask=mask).pattern
        for mask in (Causal(), Window(3, 1))
    ]
    seen = pattern_distance(*patterns)
    difference = (patterns[0].dense().double() - patterns[1].dense().double()).abs()
    assert_close(seen.total_variation.double(), difference.sum(-1) / 2, rtol=1e-5, atol=1e-6)
    assert_close(seen.largest.double(), difference.amax(-1), rtol=1e-5, atol=1e-6)
    assert not pattern_distance(patterns[0], patterns[0]).total_variation.any()
    assert 0 < float(seen.total_variation.max()) <= 1


def test_patterns_over_different_keys_have_distance_1():
    query, key = torch.tensor([[[[100.0, 0.0]]]]), torch.eye(2)[None, None]
    apart = pattern_distance(attend(query, key, key).pattern, attend(-query, key, key).pattern)
    assert float(apart.total_variation) == pytest.approx(1.0)


def test_rounding_gives_no_distance_above_1_but_weights_that_sum_to_more_than_1_do():
    query, key = torch.randn(1, 1, 999, 3, generator=torch.Generator().manual_seed(7)), torch.randn(1, 1, 14, 3)
    first, last = torch.arange(14) < 7, torch.arange(14) >= 7
    patterns = [attend(query, key, key, mask=mask[None, None, None]).pattern for mask in (first, last)]
    assert float((patterns[0].dense() + patterns[1].dense()).sum(-1).max()) > 2  # rounding
    assert_close(pattern_distance(*patterns).total_variation, torch.ones(1, 1, 999), rtol=0, atol=1e-6)
    assert float(pattern_distance(*patterns).total_variation.max()) == 1
    key = torch.full((1, 1, 6, 3), 9.0)
    patterns = [
        attend(key, key, key, mask=torch.full((1, 1, 1, 6), kept), normalise=Sigmoid()).pattern
        for kept in (True, False)
    ]
    assert_close(pattern_distance(*patterns).total_variation, torch.full((1, 1, 6), 6.0))


def test_the_weight_that_no_key_gets_counts_in_the_distance():
    x = torch.zeros(1, 1, 4, 2)
    silenced = attend(x, x, x, mask=torch.zeros(1, 1, 4, 4, dtype=torch.bool)).pattern
    assert_close(pattern_distance(attend(x, x, x).pattern, silenced).total_variation, torch.ones(1, 1, 4))
    sunk = attend(x, x, x, normalise=Softmax(sinks=torch.zeros(1))).pattern  # the sink takes a fifth of the attention
    assert_close(pattern_distance(attend(x, x, x).pattern, sunk).total_variation, torch.full((1, 1, 4), 0.2))
