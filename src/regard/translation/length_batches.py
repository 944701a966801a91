"""Texts that go through a model together: of like length, and no more of them than a budget of tokens allows."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from regard.translation.request import Request
from regard.translation.translation import Translation

Item = TypeVar("Item")

BATCH_TOKENS = 2048
"""Source tokens that are translated at a time, padding counted, unless told otherwise."""


def request_batches(requests: Sequence[Request], batch_tokens: int) -> Iterator[list[Request]]:
    """Texts of like length together, whose prefixes are as long as each other; the longest texts first."""
    order = sorted(requests, key=lambda one: (len(one.prefix), -len(one.ids)))
    for _, alike in groupby(order, key=lambda one: len(one.prefix)):
        yield from groups_within_budget(list(alike), lambda one: len(one.ids), batch_tokens)


def groups_within_budget(items: Sequence[Item], size: Callable[[Item], int], budget: int) -> Iterator[list[Item]]:
    """Items, largest first, in groups whose number times the largest is within a budget; at least one in each."""
    start = 0
    while start < len(items):
        n = max(budget // size(items[start]), 1)
        yield list(items[start : start + n])
        start += n


def n_tokens_of_longer_side(translation: Translation) -> int:
    """How many tokens the longer of source and target has, EOS counted."""
    return max(len(translation.source_ids), len(translation.target_ids) + 1)
