"""Texts that go through a model together: of like length, and no more of them than a budget of tokens allows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from regard.text.vocabulary import EOS
from regard.translation.translation import Translation

Item = TypeVar("Item")

BATCH_TOKENS = 2048
"""Source tokens that are translated at a time, padding counted, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One text to translate, as the model reads it."""

    place: int
    source: str
    ids: tuple[int, ...]
    prefix: tuple[int, ...]
    unknown: tuple[str, ...]
    left_out: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read but EOS."""
        return self.ids == (EOS,)


def batches(asked: Sequence[Asked], batch_tokens: int) -> Iterator[list[Asked]]:
    """Texts of like length together, whose prefixes are as long as each other; the longest texts first."""
    order = sorted(asked, key=lambda one: (len(one.prefix), -len(one.ids)))
    for _, alike in groupby(order, key=lambda one: len(one.prefix)):
        yield from budgeted(list(alike), lambda one: len(one.ids), batch_tokens)


def budgeted(items: Sequence[Item], size: Callable[[Item], int], budget: int) -> Iterator[list[Item]]:
    """Items, largest first, in groups whose number times the largest is within a budget; at least one in each."""
    start = 0
    while start < len(items):
        n = max(budget // size(items[start]), 1)
        yield list(items[start : start + n])
        start += n


def longer_side(translation: Translation) -> int:
    """How many tokens the longer of source and target has, EOS counted."""
    return max(len(translation.source_ids), len(translation.target_ids) + 1)
