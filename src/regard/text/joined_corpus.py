"""Several corpora joined into one, with a weight for each corpus, and the choice of the pairs of an epoch.

The indices of the joined corpus begin with the pairs of the first corpus, then come the pairs of the second, and so on.
From a corpus of n pairs with the weight w, an epoch takes w · n pairs. A corpus has one random order for all epochs: an
epoch continues where the one before it stopped, and after the last pair comes the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.text.corpus import Corpus, Ids, Lengths, Side
from regard.text.keyed_random import Integers, permutation


@dataclass(frozen=True, slots=True, eq=False)
class JoinedSide:
    """The texts of several corpora in one language (all sources, or all targets), as token ids.

    Attributes:
        starts: for each corpus, the index of its first pair in the joined corpus.
    """

    sides: Sequence[Side]
    starts: Integers

    def lengths(self, pairs: NDArray[np.int64]) -> Lengths:
        corpus_of_pair, lengths = self._corpus_of(pairs), np.empty(len(pairs), dtype=np.int64)
        for number, side in enumerate(self.sides):
            is_in_corpus = corpus_of_pair == number
            lengths[is_in_corpus] = side.lengths(pairs[is_in_corpus] - self.starts[number])
        return lengths

    def rows(self, pairs: NDArray[np.int64]) -> tuple[Ids, Lengths]:
        """Return the ids of the texts with the indices `pairs`, concatenated, and the number of ids in each text."""
        corpus_of_pair, lengths = self._corpus_of(pairs), self.lengths(pairs)
        ids = np.empty(lengths.sum(), dtype=self.sides[0].ids.dtype)
        corpus_of_id = np.repeat(corpus_of_pair, lengths)
        for number, side in enumerate(self.sides):
            ids_of_corpus, _ = side.rows(pairs[corpus_of_pair == number] - self.starts[number])
            ids[corpus_of_id == number] = ids_of_corpus  # in the same order
        return ids, lengths

    def _corpus_of(self, pairs: NDArray[np.int64]) -> Integers:
        return np.searchsorted(self.starts, pairs, side="right") - 1


class JoinedCorpus:
    """The pairs of several corpora that are encoded with the same vocabularies.

    Args:
        weights: for each corpus, how many times an epoch contains each pair of this corpus, on average.
    """

    def __init__(self, corpora: Sequence[Corpus], weights: Sequence[float]) -> None:
        self.weights = weights
        self.sizes = np.array([len(corpus) for corpus in corpora], dtype=np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.source = JoinedSide([corpus.source for corpus in corpora], self.starts)
        self.target = JoinedSide([corpus.target for corpus in corpora], self.starts)

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def order(self, seed: int, epoch: int) -> Integers:
        pairs = self.pairs_of_epoch(seed, epoch)
        return pairs[permutation(len(pairs), seed, epoch)]

    def pairs_of_epoch(self, seed: int, epoch: int) -> Integers:
        """Return the indices of an epoch's pairs: those of the first corpus, then those of the second, and so on."""
        parts, sizes = list[Integers](), self.sizes.tolist()
        for number, (size, start, weight) in enumerate(zip(sizes, self.starts, self.weights, strict=True)):
            n_pairs = max(1, round(weight * size))
            corpus_order = permutation(size, seed, "corpus", number)  # the same in every epoch
            parts.append(start + corpus_order[(epoch * n_pairs + np.arange(n_pairs)) % size])
        return np.concatenate(parts)
