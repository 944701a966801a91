"""Tests of `Global` tokens, which attend to all keys and to which all queries attend: against Longformer as a loop."""

import math

import torch
from torch.testing import assert_close

from regard import Global, Window, attend


def test_longformer_equals_its_loop(normal):
    query, key, value = (normal(1, 2, 17, width, dtype=torch.float64) for width in (5, 5, 3))
    seen = attend(query, key, value, mask=Window(2, 2) | Global([0, 11]))
    for head in range(2):
        for i in range(17):
            near = {0, 11} | set(range(max(0, i - 2), min(17, i + 3)))
            seen_keys = sorted(range(17) if i in (0, 11) else near)
            strengths = [math.exp(float(query[0, head, i] @ key[0, head, j]) / math.sqrt(5)) for j in seen_keys]
            expected = sum(s * value[0, head, j] for s, j in zip(strengths, seen_keys, strict=True)) / sum(strengths)
            assert_close(seen.context[0, head, i], expected)


def test_queries_that_come_after_a_cache_know_whether_they_are_global(normal):
    query, key, value = normal(1, 1, 17, 5), normal(1, 1, 17, 5), normal(1, 1, 17, 5)
    mask = Window(2, 0) | Global([0, 15])
    whole = attend(query, key, value, mask=mask)
    last = attend(query[:, :, -3:], key, value, mask=mask)
    assert_close(last.context, whole.context[:, :, -3:])


def test_any_collection_names_the_tokens():
    assert Global({4}) == Global([4]) == Global((4,)) == Global(range(4, 5))
    assert Global([4]) != Global([4], offset=0)
