"""Random numbers from keys: permutations, uniform numbers, and different seeds for similar keys."""

from itertools import product

import numpy as np
import pytest

from regard.text.keyed_random import permutation, philox, seed_of, uniform_numbers


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 1000])
def test_a_permutation_has_every_number_once(n):
    found = permutation(n, 5, 1)
    assert sorted(found.tolist()) == list(range(n))
    assert found.tolist() == permutation(n, 5, 1).tolist()
    if n > 60:
        assert found.tolist() != permutation(n, 5, 2).tolist()


LIMIT = 27.9
"""The value of chi-square with 9 degrees of freedom that one sample in 1,000 exceeds."""


def test_permutations_are_uniform():
    n = 2000
    means = [np.abs(permutation(n, key) - np.arange(n)).mean() / n for key in range(20)]
    assert abs(np.mean(means) - 1 / 3) < 0.01  # the mean distance of two random positions
    counts = np.bincount([permutation(10, key)[0] for key in range(2000)], minlength=10)
    assert ((counts - 200) ** 2 / 200).sum() < LIMIT


def test_uniform_numbers_are_between_0_and_1_and_follow_from_the_key():
    found = uniform_numbers(philox("a key"), 100_000)
    assert 0 <= found.min() < found.max() < 1
    counts = np.bincount((found * 10).astype(int), minlength=10)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < LIMIT
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 4 / len(found) ** 0.5
    assert (found == uniform_numbers(philox("a key"), 100_000)).all()
    assert not (found == uniform_numbers(philox("another"), 100_000)).any()


def test_seeds_differ_and_fit_pytorch():
    seeds = {seed_of(*key) for key in product((1, 2), range(50), (0, 1), (0, 1))}  # seed, step, part, rank
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(1, 23) != seed_of(12, 3)
