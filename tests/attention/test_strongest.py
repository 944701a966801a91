"""Tests of `Pattern.top`: keys in the order of their weights, the lower key first for equal weights."""

import pytest
import torch

from regard import Ask, Causal, Entmax, Hard, Sigmoid, Softmax, TalkingHeads, attend
from regard.attention.strongest import strongest_first


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 4, 11])
def test_the_largest_weights_come_first_and_of_equal_ones_the_lower_key(dtype, n):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randint(-3, 4, (5, 7, 11), generator=generator).to(dtype) / 7
    weights[0, 0, 3], weights[0, 1, 2] = -torch.inf, torch.inf
    weights[1, :, 4], weights[1, :, 5] = -0.0, 0.0
    expected = sorted_rows(weights, n)
    found, keys = strongest_first(weights, n)
    assert keys.tolist() == expected
    assert torch.equal(found, weights.gather(-1, keys))


def sorted_rows(weights, n):
    """Return the keys of the n largest weights of each row, sorted by Python."""
    if weights.ndim > 1:
        return [sorted_rows(row, n) for row in weights]
    numbers = weights.tolist()
    return sorted(range(len(numbers)), key=lambda key: (-numbers[key], key))[:n]


@pytest.mark.parametrize("keys", [7, 40, 300])
@pytest.mark.parametrize("normalise", [Softmax(), Sigmoid(), Entmax(), Hard(), TalkingHeads(2)], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_equal_weights_the_first_keys_are_the_top_keys(normal, keys, normalise, dtype):
    key = normal(1, 2, keys, 8).to(dtype)
    query = torch.zeros(1, 2, 3, 8, dtype=dtype)
    normalise = normalise.to(dtype) if isinstance(normalise, torch.nn.Module) else normalise
    for ask in (None, Ask(top=4, entropy=False)):
        seen = attend(query, key, key, normalise=normalise, mask=Causal(), ask=ask)
        assert seen.pattern.top(4).keys.tolist() == [[[[0, 1, 2, 3]] * 3] * 2]
