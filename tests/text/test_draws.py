"""Numbers that look drawn: permutations that are ones, shares that are even, seeds that are unlike."""

import numpy as np
import pytest

from regard.text.keyed_random import key_of, permuted, seed_of, shares


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 65, 1000])
def test_a_permutation_is_one_and_each_place_is_computed_by_itself(n):
    whole = permuted(np.arange(n), n, (5, 1))
    assert sorted(whole.tolist()) == list(range(n))
    assert [int(permuted(np.array([place]), n, (5, 1))[0]) for place in range(min(n, 9))] == whole[:9].tolist()
    if n > 60:
        assert whole.tolist() != permuted(np.arange(n), n, (5, 2)).tolist()


def test_a_permutation_looks_drawn():
    n = 2000
    means = [np.abs(permuted(np.arange(n), n, (key,)) - np.arange(n)).mean() / n for key in range(20)]
    assert abs(np.mean(means) - 1 / 3) < 0.01  # the mean distance of two drawn places
    firsts = [int(permuted(np.array([0]), 10, (key,))[0]) for key in range(2000)]
    counts = np.bincount(firsts, minlength=10)
    assert ((counts - 200) ** 2 / 200).sum() < 27.9  # chi-square with 9 degrees of freedom, p = 0.001


def test_shares_are_between_0_and_1_and_even():
    found = shares(key_of("a key") + np.arange(100_000, dtype=np.uint64))
    assert 0 <= found.min() < found.max() < 1
    counts = np.bincount((found * 10).astype(int), minlength=10)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 27.9
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 4 / len(found) ** 0.5
    assert not (found == shares(key_of("another") + np.arange(100_000, dtype=np.uint64))).any()


def test_seeds_are_unlike_and_fit_pytorch():
    seeds = {
        seed_of(seed, step, part, rank) for seed in (1, 2) for step in range(50) for part in (0, 1) for rank in (0, 1)
    }
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(1, 23) != seed_of(12, 3)
