"""Batches: pairs of like lengths together, as many as a number of tokens allows, in another order in every epoch.

Which pairs are in which batch follows from the seed, the epoch and the lengths alone. So a training that goes on takes
just the batches that were left, and reads none of the texts before them; and nothing as long as the corpus is held in
memory: the order of the pairs is a permutation that is computed where it is looked at, and batches are made of a pool
of some thousand pairs at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from regard.text.bpe_dropout import BPEDropout
from regard.text.corpus import SIDES, Corpus
from regard.text.keyed_random import Numbers, key_of, mixed, permuted
from regard.text.vocabulary import BOS, EOS, PAD

POOL = 10_000
"""Pairs that are sorted by length and cut into batches together."""

COUNTED = 20
"""Pools whose batches are counted to tell how many an epoch has."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Pairs that are learned from together, padded on the right.

    Attributes:
        source: the sources, each with EOS.
        lengths: their true lengths, EOS counted.
        target: what the decoder reads: BOS, and the target.
        expected: what it must predict: the target, and EOS.
        n_tokens: how many tokens must be predicted.
    """

    source: Int[Tensor, "batch source"]
    lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target"]
    expected: Int[Tensor, "batch target"]
    n_tokens: int


class Batches:
    """The batches of a corpus.

    Args:
        max_tokens: of a batch on its larger side, padding and EOS counted; a pair that has more by itself is a batch
            of its own.
        dropouts: what cuts sources and targets anew in every epoch, after they have been put into batches; None = they
            stay as they are.
    """

    def __init__(
        self, corpus: Corpus, max_tokens: int, seed: int, dropouts: tuple[BPEDropout, BPEDropout] | None = None
    ) -> None:
        if max_tokens < 1:
            raise ValueError(f"max_tokens={max_tokens} is what a batch may hold; it must be at least 1.")
        self.corpus, self.max_tokens, self.seed, self.dropouts = corpus, max_tokens, seed, dropouts

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from the one numbered `start` on."""
        skipped = 0
        for pool in self._pools(number):
            if skipped + len(pool) <= start:
                skipped += len(pool)
                continue
            for pairs in pool[max(0, start - skipped) :]:
                yield self.batch(pairs, number)
            skipped += len(pool)

    def n_batches(self) -> int:
        """How many batches an epoch has; of a corpus of more than `COUNTED` pools about, from the first ones."""
        counts, n_pools = [], -(-len(self.corpus) // POOL)
        for pool in self._pools(0):
            counts.append(len(pool))
            if len(counts) == COUNTED:
                break
        return round(sum(counts) * n_pools / len(counts)) if counts else 0

    def batch(self, pairs: Numbers, epoch: int) -> Batch:
        """The batch of some pairs."""
        rows = [side.rows(pairs) for side in (self.corpus.source, self.corpus.target)]
        if self.dropouts is not None:
            keys = (key_of(self.seed, epoch, int(pairs[0]), side) for side in SIDES)
            rows = [anew(*texts, key) for anew, texts, key in zip(self.dropouts, rows, keys, strict=True)]
        (source, source_lengths), (target, target_lengths) = rows
        return Batch(
            source=between(source, source_lengths, last=EOS),
            lengths=torch.from_numpy(source_lengths + 1),
            target=between(target, target_lengths, first=BOS),
            expected=between(target, target_lengths, last=EOS),
            n_tokens=int(target_lengths.sum()) + len(pairs),
        )

    def _pools(self, epoch: int) -> Iterator[list[Numbers]]:
        """The pairs of each batch, pool by pool."""
        for first in range(0, len(self.corpus), POOL):
            places = np.arange(first, min(first + POOL, len(self.corpus)), dtype=np.int64)
            batches = list(self._cut(permuted(places, len(self.corpus), (self.seed, epoch))))
            order = np.argsort(mixed(np.arange(len(batches), dtype=np.uint64) + key_of(self.seed, epoch, first)))
            yield [batches[place] for place in order]

    def _cut(self, pairs: Numbers) -> Iterator[Numbers]:
        """Pairs, sorted by length and cut into batches."""
        source, target = self.corpus.source.lengths(pairs) + 1, self.corpus.target.lengths(pairs) + 1
        order = np.lexsort((source, target))
        pairs, source, target = pairs[order], source[order], target[order]
        larger, start = np.maximum(source, target), 0
        while start < len(pairs):
            most = max(1, self.max_tokens // int(target[start]))  # no target after it is shorter
            held = np.maximum.accumulate(larger[start : start + most]) * np.arange(1, 1 + min(most, len(pairs) - start))
            n_rows = max(1, int(np.searchsorted(held, self.max_tokens, side="right")))
            yield pairs[start : start + n_rows]
            start += n_rows


def between(
    ids: Integer[np.ndarray, " ids"],
    lengths: Int[np.ndarray, " batch"],
    first: int | None = None,
    last: int | None = None,
) -> Int[Tensor, "batch tokens"]:
    """Texts that lie one after the other as rows, each after the first id or before the last, padded on the right."""
    rows = np.full((len(lengths), int(lengths.max()) + 1), PAD, dtype=np.int64)
    place, start = np.arange(rows.shape[1]), 0 if first is None else 1
    rows[(place >= start) & (place < start + lengths[:, None])] = ids
    if first is not None:
        rows[:, 0] = first
    if last is not None:
        rows[place == lengths[:, None]] = last
    return torch.from_numpy(rows)
