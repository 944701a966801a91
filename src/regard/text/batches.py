"""Batches of sentence pairs of similar lengths, with a limited number of tokens, in a new order in every epoch.

The batches depend only on the seed, the epoch and the lengths of the texts. So a resumed training run continues with
exactly the batches that were left, without reading the texts of earlier batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import ceil

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int, Integer
from torch import Tensor

from regard.text.bpe_dropout import BPEDropout
from regard.text.corpus import SIDES, Corpus
from regard.text.joined_corpus import JoinedCorpus
from regard.text.keyed_random import Integers, permutation
from regard.text.vocabulary import BOS, EOS, PAD

PAIRS_PER_POOL = 10_000
"""The size of a pool: this many randomly drawn pairs are sorted by length together, and then divided into batches."""

POOLS_COUNTED = 20
"""The number of batches in an epoch of a large corpus is estimated from this many pools.

A pool is a part of the corpus whose pairs are sorted by length before they are divided into batches.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The sentence pairs of one batch, as token ids padded on the right.

    Attributes:
        source: the sources, each followed by EOS.
        lengths: the number of tokens of each source, EOS included, without padding.
        target: the decoder's input: BOS, then the target.
        expected: the decoder's labels: the target, then EOS.
        n_tokens: the number of labels that are not padding.
    """

    source: Int[Tensor, "batch source"]
    lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target"]
    expected: Int[Tensor, "batch target"]
    n_tokens: int


class Batches:
    """A corpus divided into batches, differently in every epoch.

    Args:
        max_tokens: the largest number of source tokens in a batch, and of target tokens, padding and EOS included. A
            pair with more tokens is a batch by itself.
        seed: the seed of the order of the pairs and of BPE-dropout.
        dropouts: BPE-dropout for sources and for targets. It divides texts into more pieces, so that a batch may have
            more than `max_tokens` tokens. None = no BPE-dropout.
    """

    def __init__(
        self,
        corpus: Corpus | JoinedCorpus,
        max_tokens: int,
        seed: int,
        dropouts: tuple[BPEDropout, BPEDropout] | None = None,
    ) -> None:
        if max_tokens < 1:
            raise ValueError(f"max_tokens={max_tokens}: a batch must have room for at least 1 token.")
        self.corpus, self.max_tokens, self.seed, self.dropouts = corpus, max_tokens, seed, dropouts

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of epoch `number`, from the batch with index `start` on."""
        for batches in self._pools(number):
            for indices in batches[start:]:
                yield self.batch(indices, number)
            start = max(0, start - len(batches))

    def n_batches(self) -> int:
        """Return the number of batches in an epoch; an estimate for a corpus of more than 200,000 pairs."""
        counts = [len(batches) for batches in islice(self._pools(0), POOLS_COUNTED)]
        n_pools = ceil(len(self.corpus.order(self.seed, 0)) / PAIRS_PER_POOL)
        return round(sum(counts) * n_pools / len(counts)) if counts else 0

    def batch(self, indices: Integers, epoch: int) -> Batch:
        """Return the pairs with these indices as one batch; the epoch is a part of the seed of BPE-dropout."""
        texts = [side.rows(indices) for side in (self.corpus.source, self.corpus.target)]
        if self.dropouts is not None:
            first_pair = int(indices[0])  # part of the seed, because every batch has another first pair
            texts = [
                dropout(ids, lengths, (self.seed, epoch, first_pair, name))
                for dropout, (ids, lengths), name in zip(self.dropouts, texts, SIDES, strict=True)
            ]
        (source_ids, source_lengths), (target_ids, target_lengths) = texts
        source, expected = padded(source_ids, source_lengths), padded(target_ids, target_lengths)
        without_eos = expected.masked_fill(expected == EOS, PAD)
        return Batch(
            source=source,
            lengths=torch.from_numpy(source_lengths + 1),
            target=F.pad(without_eos[:, :-1], (1, 0), value=BOS),  # one place to the right, after BOS
            expected=expected,
            n_tokens=int(target_lengths.sum()) + len(indices),
        )

    def _pools(self, epoch: int) -> Iterator[list[Integers]]:
        """Yield, for each `PAIRS_PER_POOL` pairs of an epoch, their batches in random order, as indices of pairs."""
        order = self.corpus.order(self.seed, epoch)
        for first in range(0, len(order), PAIRS_PER_POOL):
            batches = list(self._divide(order[first : first + PAIRS_PER_POOL]))
            yield [batches[index] for index in permutation(len(batches), self.seed, epoch, first)]

    def _divide(self, pairs: Integers) -> Iterator[Integers]:
        """Divide the pairs with these indices into batches of similar lengths; yield the indices of each batch."""
        source_lengths, target_lengths = (side.lengths(pairs) + 1 for side in (self.corpus.source, self.corpus.target))
        order = np.lexsort((source_lengths, target_lengths))  # by target length, then by source length
        pairs, target_lengths = pairs[order], target_lengths[order]
        lengths = np.maximum(source_lengths[order], target_lengths)
        start = 0
        while start < len(pairs):
            # more rows never fit, because no later target is shorter
            max_rows = max(1, self.max_tokens // int(target_lengths[start]))
            longest = np.maximum.accumulate(lengths[start : start + max_rows])
            n_tokens = longest * np.arange(1, 1 + len(longest))  # n_tokens[n]: of n + 1 rows, padding included
            # n_tokens ascends, so the search gives the number of rows that fit
            n_rows = max(1, int(np.searchsorted(n_tokens, self.max_tokens, side="right")))
            yield pairs[start : start + n_rows]
            start += n_rows


def padded(ids: Integer[np.ndarray, " ids"], lengths: Int[np.ndarray, " batch"]) -> Int[Tensor, "batch tokens"]:
    """Return a tensor with a text in each row, then EOS and padding; `ids` has the ids of all texts, concatenated."""
    rows = np.full((len(lengths), int(lengths.max()) + 1), PAD, dtype=np.int64)
    column = np.arange(rows.shape[1])
    rows[column < lengths[:, None]] = ids
    rows[column == lengths[:, None]] = EOS
    return torch.from_numpy(rows)
