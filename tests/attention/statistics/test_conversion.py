"""Tests of converting float16 and bfloat16 vectors to float32, some heads at a time: the results are always equal."""

import pytest
import torch
from torch.testing import assert_close

from regard import Ask, Causal, attend
from regard.attention.statistics.cpu import conversion


@pytest.mark.parametrize("contexts", [True, False])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (3, 1)])
def test_half_types_are_converted_some_heads_at_a_time(normal, monkeypatch, heads, contexts):
    n_heads, key_heads = heads
    query = normal(2, n_heads, 37, 8).bfloat16()
    key, value = normal(2, key_heads, 53, 8).bfloat16(), normal(1, key_heads, 53, 5).bfloat16()
    ask, found = Ask(top=3, pooled=(7, 5)), []
    for most in (1, 2**10, 2**24):
        monkeypatch.setattr(conversion, "CONVERTED_AT_ONCE", most)
        seen = attend(query, key, value, mask=Causal(), ask=ask if contexts else None)
        found.append((seen.context, seen.pattern.answer(ask)))
    wide = attend(query.float(), key.float(), value.float(), mask=Causal(), ask=ask)
    for context, known in found:
        assert_close(context.float(), wide.context, rtol=1e-2, atol=1e-2)
        assert torch.equal(known.received, wide.pattern.statistics.received)
        assert torch.equal(known.pooled, wide.pattern.statistics.pooled)
        assert torch.equal(known.top.keys, wide.pattern.statistics.top.keys)


@pytest.mark.parametrize("strided", ["query", "key", "value", "all"])
def test_strided_heads_are_copied_some_heads_at_a_time(normal, monkeypatch, strided):
    parts = {name: normal(2, n, 257, 8).float() for name, n in (("query", 6), ("key", 3), ("value", 3))}
    apart = {
        name: part.transpose(1, 2).contiguous().transpose(1, 2) if strided in (name, "all") else part
        for name, part in parts.items()
    }
    ask = Ask(top=3, pooled=(7, 5))
    expected = attend(*parts.values(), mask=Causal(), ask=ask)
    for most in (1, 2 * (2 + 1 + 1) * 257 * 8, 2**22):
        monkeypatch.setattr(conversion, "CONVERTED_AT_ONCE", most)
        seen = attend(*apart.values(), mask=Causal(), ask=ask)
        assert torch.equal(seen.context, expected.context)
        for name in ("received", "entropy", "pooled"):
            assert torch.equal(getattr(seen.pattern.statistics, name), getattr(expected.pattern.statistics, name))


def test_few_queries_read_keys_without_a_copy(normal, monkeypatch):
    query, memory = normal(1, 2, 5, 8).float(), normal(1, 53, 2, 8).float().transpose(1, 2)
    monkeypatch.setattr(conversion, "readable_vectors", None)
    expected = (query @ memory.mT / 8**0.5).softmax(dim=-1) @ memory
    assert_close(attend(query, memory, memory, ask=Ask()).context, expected)


def test_the_heads_of_a_token_are_adjacent_in_the_context(normal):
    x = normal(2, 3, 19, 5).float()
    context = attend(x, x, x, mask=Causal(), ask=Ask()).context
    assert context.transpose(1, 2).is_contiguous()
