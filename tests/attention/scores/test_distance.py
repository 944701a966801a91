"""Tests of distance scores: against torch and a loop; adding one vector to all queries and keys changes nothing."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Distance, attend
from regard.attention.scores.distance import products_are_accurate, squares_by_differences, squares_by_products


def test_scores_are_torchs_distances(normal):
    query, key = normal(2, 6, 5, 11), normal(2, 3, 7, 11)
    found = attend(query, key, key, score=Distance(scale=0.3))
    scores = -0.3 * torch.cdist(query, key.repeat_interleave(2, 1)).square()
    assert_close(found.pattern.scores(), scores)
    assert_close(found.context, scores.softmax(dim=-1) @ key.repeat_interleave(2, 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_torchs_default_type_changes_nothing(normal, default_type, dtype):
    x = normal(1, 2, 700, 11)
    expected = attend(x, x, x, score=Distance()).context
    with default_type(dtype):
        found = attend(x, x, x, score=Distance()).context
    assert torch.equal(found, expected)


def test_by_hand():
    query, key = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[1.0, 2.0], [4.0, 6.0], [0.0, 2.0]]]])
    # distances 0, 5 and 1, squared
    assert attend(query, key, key, score=Distance(scale=2.0)).pattern.scores(0, 0, 0).tolist() == [0.0, -50.0, -2.0]


@pytest.mark.parametrize("far", [2.0, 1e3, 1e5])
@pytest.mark.parametrize("mask", [None, Causal()], ids=repr)
def test_one_vector_added_to_all_queries_and_keys_changes_nothing(normal, far, mask):
    # on a lattice of eighths, which float32 holds exactly even that far away
    query, key = (normal(1, heads, n, 5).mul(8).round() / 8 for heads, n in ((4, 19), (2, 23)))
    value = normal(1, 2, 23, 3)
    here = attend(query, key, value, score=Distance(), mask=mask)
    there = attend(query + far, key + far, value, score=Distance(), mask=mask)
    tolerance = {"rtol": 1e-5, "atol": 1e-4}
    assert_close(there.context, here.context, **tolerance)
    assert_close(there.pattern.dense(), here.pattern.dense(), **tolerance)
    assert_close(there.pattern.scores(), here.pattern.scores(), **tolerance)


@pytest.mark.parametrize("far", [1e2, 1e3, 1e6])
def test_keys_in_two_clusters_far_apart_keep_their_digits(normal, far):
    side = far * torch.tensor([-1.0, 1.0]).repeat(12)[:23, None]
    query, key, value = normal(1, 2, 23, 5) + side, normal(1, 2, 23, 5) + side, normal(1, 2, 23, 3)
    seen = attend(query, key, value, score=Distance())
    exact = attend(query.double(), key.double(), value.double(), score=Distance())
    assert_close(seen.pattern.dense().double(), exact.pattern.dense(), rtol=0, atol=1e-5)
    assert_close(seen.context.double(), exact.context, rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [1e5, 1e18])
def test_a_masked_key_of_any_size_changes_nothing(normal, size):
    query, key = normal(1, 1, 3, 5), normal(1, 1, 7, 5)
    keep = torch.arange(7) < 6
    before = attend(query, key, key, score=Distance(), mask=keep).context
    key[0, 0, 6] = size
    after = attend(query, key, key, score=Distance(), mask=keep).context  # by differences; before by products
    assert_close(after, before)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_squares_by_products_equal_squares_by_differences(normal, size):
    query, key = size * normal(2, 3, 5, 11), size * normal(2, 3, 7, 11)
    expected = squares_by_differences(query.double(), key.double())
    assert_close(squares_by_products(query, key).double(), expected, rtol=1e-6, atol=1e-6 * size**2)
    assert_close(squares_by_differences(query, key).double(), expected, rtol=1e-6, atol=1e-6 * size**2)
    assert products_are_accurate(query, key, 1.0)
    assert not products_are_accurate(query, key, 1e9 / size**2)
    assert not products_are_accurate(query.double(), key.double(), 1.0)
