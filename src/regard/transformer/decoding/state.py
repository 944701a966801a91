"""The state of a decoder between two steps: the keys and values of the source and of the target tokens so far."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DecodingState:
    """The state of a decoder for a batch of target texts, one row each. A decoding step returns a new state.

    Consecutive rows that translate the same source (the hypotheses of a beam) share its keys and values.

    Attributes:
        lengths: the number of tokens of each source before its padding; None = no padding.
        memory: for each block, the source's cross-attention keys and values, or None in a language model.
        cache: for each block, the self-attention keys and values of the target tokens so far; None before the first
            token.
        rows_per_source: the number of consecutive rows that read each source.
    """

    lengths: Int[Tensor, " sources"] | None
    memory: tuple[KeyValue | None, ...]
    cache: tuple[KeyValue, ...] | None = None
    rows_per_source: int = 1

    @property
    def n_tokens(self) -> int:
        """The number of tokens of each target text so far."""
        return 0 if self.cache is None else self.cache[0].n_tokens

    def select(self, rows: Int[Tensor, " rows"]) -> "DecodingState":
        """Return the state of the target texts with the indices `rows`; a beam search may repeat an index."""
        cache = None if self.cache is None else tuple(block.select(rows) for block in self.cache)
        if not self.sources:  # a language model
            return replace(self, cache=cache)
        indices, rows_per_source = group_by_source(rows // self.rows_per_source)  # the indices of the sources
        lengths, memory = self.lengths, self.memory
        if not torch.equal(indices, torch.arange(self.n_sources, device=indices.device)):
            lengths = None if lengths is None else lengths.index_select(0, indices)
            memory = tuple(block.select(indices) for block in self.sources)
        return replace(self, lengths=lengths, memory=memory, cache=cache, rows_per_source=rows_per_source)

    @property
    def sources(self) -> tuple[KeyValue, ...]:
        """For each decoder block, the cross-attention keys and values of the sources; empty for a language model."""
        return tuple(block for block in self.memory if block is not None)

    @property
    def n_sources(self) -> int:
        """The number of sources; for a language model, the number of target texts, or 0 before the first token."""
        if self.memory[0] is not None:
            return len(self.memory[0].key)
        return 0 if self.cache is None else len(self.cache[0].key)

    def __repr__(self) -> str:
        rows = f", rows={self.n_sources * self.rows_per_source}" if self.n_sources else ""
        source = "" if self.memory[0] is None else f", source={self.memory[0].n_tokens}"
        return f"DecodingState(n_tokens={self.n_tokens}{rows}{source}, layers={len(self.memory)})"


def group_by_source(sources: Int[Tensor, " rows"]) -> tuple[Int[Tensor, " sources"], int]:
    """Group adjacent rows (target texts) of one source; return each group's source, and the number of rows in a group.

    If the groups differ in size, every row is a group of its own: the result is `sources` and 1.

    Args:
        sources: the index of each row's source.

    >>> group_by_source(torch.tensor([4, 4, 7, 7])), group_by_source(torch.tensor([4, 4, 7]))
    ((tensor([4, 7]), 2), (tensor([4, 4, 7]), 1))
    """
    source_of_group, n_rows = torch.unique_consecutive(sources, return_counts=True)
    rows_per_source = len(sources) // max(len(source_of_group), 1)
    return (source_of_group, rows_per_source) if bool((n_rows == rows_per_source).all()) else (sources, 1)
