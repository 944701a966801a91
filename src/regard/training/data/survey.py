"""The size of a corpus and the letters that its languages have in common, counted before vocabularies are made."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from regard.training.watcher import Watcher

LETTER_PAIRS = 100_000
"""The first pairs, whose letters are counted; those of the rest are like them."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The size of a corpus and the letters that its languages have in common."""

    n_pairs: int
    """The pairs without an empty side, dev pairs included."""

    shared_letters: float
    """The share of letters that the two languages have in common, from 0 to 1."""


def survey_corpus(pairs: Iterable[tuple[str, str]], watcher: Watcher) -> Survey:
    """Count the pairs of a corpus and their letters."""
    n_pairs, letters = 0, (Counter[str](), Counter[str]())
    watcher.busy("reading the texts")
    for pair in pairs:
        if n_pairs < LETTER_PAIRS:
            for counts, text in zip(letters, pair, strict=True):
                counts.update(letter for letter in text.lower() if letter.isalpha())
        n_pairs += 1
        if n_pairs % LETTER_PAIRS == 0:
            watcher.busy(f"reading the texts: {n_pairs:,} pairs")
    return Survey(n_pairs, shared_letters(*letters))


def shared_letters(source: Counter[str], target: Counter[str]) -> float:
    """Return the share that two counts of letters have in common.

    >>> shared_letters(Counter("aabb"), Counter("abcc"))
    0.5
    """
    totals = source.total() or 1, target.total() or 1
    return float(sum(min(source[letter] / totals[0], target[letter] / totals[1]) for letter in source))
