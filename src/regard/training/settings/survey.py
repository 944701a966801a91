"""Statistics of a corpus on which default settings depend, such as whether the languages share a vocabulary."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from regard.training.watcher import Watcher

LETTER_PAIRS = 100_000
"""Letters are counted in this many pairs of sentences; the other pairs are assumed to have similar letters."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The statistics of a corpus that the default settings depend on.

    Attributes:
        n_pairs: the number of sentence pairs in which neither sentence is empty, dev pairs included.
        shared_letters: the overlap of the two languages' letter frequencies, from 0 (no common letter) to 1.
    """

    n_pairs: int
    shared_letters: float


def survey_corpus(pairs: Iterable[tuple[str, str]], watcher: Watcher) -> Survey:
    n_pairs, letter_counts = 0, (Counter[str](), Counter[str]())
    watcher.busy("reading the texts")
    for pair in pairs:
        if n_pairs < LETTER_PAIRS:
            for counts, text in zip(letter_counts, pair, strict=True):
                counts.update(letter for letter in text.lower() if letter.isalpha())
        n_pairs += 1
        if n_pairs % 100_000 == 0:
            watcher.busy(f"reading the texts: {n_pairs:,} pairs")
    return Survey(n_pairs, shared_letters(*letter_counts))


def shared_letters(source: Counter[str], target: Counter[str]) -> float:
    """Return the overlap of two letter frequencies: Σ over letters min(share in source, share in target).

    >>> shared_letters(Counter("aabb"), Counter("abcc"))
    0.5
    """
    totals = source.total() or 1, target.total() or 1
    return float(sum(min(source[letter] / totals[0], target[letter] / totals[1]) for letter in source))
