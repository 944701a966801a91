"""Half types are turned into float32 some heads at a time: the same numbers, however many."""

import pytest
import torch
from torch.testing import assert_close

from regard import Ask, Causal, attend
from regard.attention.statistics.cpu import conversion as rounds


@pytest.mark.parametrize("contexts", [True, False])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (3, 1)])
def test_half_types_are_made_ready_some_heads_at_a_time(normal, monkeypatch, heads, contexts):
    n_heads, key_heads = heads
    query = normal(2, n_heads, 37, 8).bfloat16()
    key, value = normal(2, key_heads, 53, 8).bfloat16(), normal(1, key_heads, 53, 5).bfloat16()
    ask, found = Ask(top=3, pooled=(7, 5)), []
    for most in (1, 2**10, 2**24):
        monkeypatch.setattr(rounds, "CONVERTED_AT_ONCE", most)
        seen = attend(query, key, value, mask=Causal(), ask=ask if contexts else None)
        found.append((seen.context, seen.pattern.answer(ask)))
    wide = attend(query.float(), key.float(), value.float(), mask=Causal(), ask=ask)
    for context, known in found:
        assert_close(context.float(), wide.context, rtol=1e-2, atol=1e-2)
        assert torch.equal(known.received, wide.pattern.known.received)
        assert torch.equal(known.pooled, wide.pattern.known.pooled)
        assert torch.equal(known.top.keys, wide.pattern.known.top.keys)


@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (5, 0), (0, 0)])
def test_half_types_of_nothing(queries, keys):
    query, key = torch.zeros(1, 2, queries, 3).bfloat16(), torch.zeros(1, 2, keys, 3).bfloat16()
    seen = attend(query, key, key, ask=Ask())
    assert torch.equal(seen.context, query)
    assert torch.equal(seen.pattern.received(), torch.zeros(1, 2, keys))
