"""What is known of a corpus before it is cut into pieces: its size, and whether its languages are written alike."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from regard.training.console import Watcher

LETTER_PAIRS = 100_000
"""Pairs whose letters are counted; those of larger corpora are as these."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a corpus before it is cut into pieces."""

    n_pairs: int
    """Pairs with two sides, those to judge by among them."""

    in_common: float
    """The share of letters that the two have in common, from 0 to 1."""


def surveyed(pairs: Iterable[tuple[str, str]], watcher: Watcher) -> Survey:
    """Count pairs and letters."""
    n_pairs, letters = 0, (Counter[str](), Counter[str]())
    watcher.works("reading the texts")
    for pair in pairs:
        if n_pairs < LETTER_PAIRS:
            for counts, text in zip(letters, pair, strict=True):
                counts.update(letter for letter in text.lower() if letter.isalpha())
        n_pairs += 1
        if n_pairs % LETTER_PAIRS == 0:
            watcher.works(f"reading the texts: {n_pairs:,} pairs")
    return Survey(n_pairs, in_common(*letters))


def in_common(source: Counter[str], target: Counter[str]) -> float:
    """The share that two counts of letters have in common.

    >>> in_common(Counter("aabb"), Counter("abcc"))
    0.5
    """
    totals = source.total() or 1, target.total() or 1
    return float(sum(min(source[letter] / totals[0], target[letter] / totals[1]) for letter in source))
