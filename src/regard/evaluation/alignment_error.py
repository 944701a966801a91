"""Alignment error rate: the difference between word alignments and reference alignments made by people.

    AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

A is the set of aligned word pairs to be scored, S the sure pairs of the reference, and P the possible pairs of the
reference, which include the sure pairs. 0 is best, 1 is worst.

Source: Och & Ney 2003, section 5.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

Pairs = Collection[tuple[int, int]]
"""Aligned word pairs: (index of the source word, index of the target word)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceAlignment:
    """The reference alignment of a sentence pair, made by people.

    Attributes:
        sure: the word pairs that a correct alignment has.
        possible: further word pairs that a correct alignment may have, P without S.
    """

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]] = frozenset()


def alignment_error_rate(sentence_pairs: Iterable[tuple[Pairs, ReferenceAlignment]]) -> float:
    """Return the alignment error rate over all sentence pairs, from 0 to 1.

    >>> reference = ReferenceAlignment(sure=frozenset({(0, 0), (1, 1)}), possible=frozenset({(2, 1)}))
    >>> alignment_error_rate([({(0, 0), (2, 1)}, reference)])
    0.25
    """
    n_sure = n_possible = n_aligned_and_sure = 0  # |A ∩ S|, |A ∩ P|, |A| + |S|
    for pairs, reference in sentence_pairs:
        n_sure += len(reference.sure.intersection(pairs))
        n_possible += len((reference.sure | reference.possible).intersection(pairs))
        n_aligned_and_sure += len(set(pairs)) + len(reference.sure)
    return 1 - (n_sure + n_possible) / n_aligned_and_sure if n_aligned_and_sure else 0.0
