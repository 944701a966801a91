"""Tests of `Causal` and `Prefix`: against PyTorch's causal masks; no query attends to later keys outside a prefix."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.testing import assert_close

from regard import Causal, Keep, Padding, Prefix, attend
from regard.attention.grid.grid import Grid

CPU = torch.device("cpu")


@pytest.mark.parametrize(("queries", "keys"), [(7, 19), (11, 11), (1, 5)])
@pytest.mark.parametrize(("mask", "bias"), [(Causal(), causal_lower_right), (Causal(0), causal_upper_left)])
def test_causal_is_what_torch_calls_causal(normal, mask, bias, queries, keys):
    query, key, value = normal(2, 3, queries, 5), normal(2, 3, keys, 5), normal(2, 3, keys, 5)
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=bias(queries, keys))
    assert_close(attend(query, key, value, mask=mask).context, expected)


@pytest.mark.parametrize(("queries", "keys"), [(7, 19), (17, 17)])
def test_with_own_false_a_query_reads_the_keys_before_its_own_position(normal, queries, keys):
    query, key, value = normal(2, 3, queries, 5), normal(2, 3, keys, 5), normal(2, 3, keys, 7)
    seen, before = attend(query, key, value, mask=Causal(own=False)), torch.ones(queries, keys).bool()
    expected = attend(query, key, value, mask=before.tril(keys - queries - 1))
    assert_close(seen.context, expected.context)
    assert_close(seen.pattern.dense(), expected.pattern.dense())
    assert_close(seen.pattern.received(), expected.pattern.received())


@given(st.integers(0, 999), st.integers(0, 19), st.integers(1, 18))
def test_the_future_never_leaks_from_beyond_the_prefix(seed, length, now):
    generator = torch.Generator().manual_seed(seed)
    query, key, value, other = torch.randn(4, 2, 3, 19, 5, generator=generator, dtype=torch.float64)
    mask, beyond = Prefix(length), max(now, length)
    before = attend(query, key, value, mask=mask)
    key[:, :, beyond:], value[:, :, beyond:] = other[:, :, beyond:], 1e9 * other[:, :, beyond:]
    after = attend(query, key, value, mask=mask)
    assert_close(after.context[:, :, :now], before.context[:, :, :now])
    value[:, :, :length] += 1
    moved = attend(query, key, value, mask=mask).context[:, :, :now] != after.context[:, :, :now]
    assert bool(moved.all()) == (length > 0)


@given(st.integers(0, 13), st.none() | st.integers(-7, 7))
def test_a_prefix_is_causal_attention_joined_with_keys_for_all(length, offset):
    grid = Grid(2, 1, 5, 11)
    whole = grid.whole()
    for prefix, keys in [
        (Prefix(length, offset), Keep(torch.arange(11) < length)),
        (Prefix(torch.tensor([length, 3]), offset), Padding(torch.tensor([length, 3]))),
    ]:
        joined = Causal(offset) | keys
        assert torch.equal(prefix.keep(whole, CPU).expand(grid.shape), joined.keep(whole, CPU).expand(grid.shape))
    assert Prefix(0, offset).reach(grid, range(2, 4)) == Causal(offset).reach(grid, range(2, 4))


def test_one_prefix_for_each_item_is_each_with_its_own(normal):
    query, key, value = normal(2, 3, 7, 5), normal(2, 3, 11, 5), normal(2, 3, 11, 5)
    together = attend(query, key, value, mask=Prefix(torch.tensor([6, 9])))
    for item, length in enumerate((6, 9)):
        alone = attend(query[[item]], key[[item]], value[[item]], mask=Prefix(length))
        assert_close(together.context[[item]], alone.context)
        assert_close(together.pattern[[item]], alone.pattern.dense())
