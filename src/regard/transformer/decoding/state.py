"""The state of a decoder between two steps: the source, projected once, and the target's tokens so far."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue
from regard.transformer.decoding.cache import BlockCache, BufferCache
from regard.transformer.decoding.kernel import CompiledDecoder, SourceRows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DecodingState:
    """The state of a batch of target texts; a step returns a new state and does not change this one.

    Consecutive rows that read the same source, as a beam's do, share its keys and values.

    Attributes:
        lengths: how many tokens of each source are no padding; None = all.
        memory: the source as keys and values of each block's cross-attention; None if there is no source.
        cache: the keys and values of the target's tokens so far; None before the first.
        rows_per_source: how many consecutive rows read each source.
        compiled: the CPU kernel that takes a step of one token; None = the decoder's modules take it.
    """

    lengths: Int[Tensor, " sources"] | None
    memory: tuple[KeyValue | None, ...]
    cache: BlockCache | BufferCache | None = None
    rows_per_source: int = 1
    compiled: CompiledDecoder | None = None

    @property
    def n_tokens(self) -> int:
        """How many target tokens have been read."""
        return 0 if self.cache is None else self.cache.n_tokens

    def select(self, rows: Int[Tensor, " rows"]) -> "DecodingState":
        """Return the state of some rows of the batch, in the order of `rows`; a row may come several times."""
        state = replace(self, cache=None if self.cache is None else self.cache.select(rows))
        if self.memory[0] is None:
            return state
        sources = rows // self.rows_per_source
        if self.compiled is not None and torch.equal(sources, self.compiled.sources.source_of_row):
            return state
        return state.with_sources(*group_by_source(sources))

    def with_sources(self, sources: Int[Tensor, " sources"], rows_per_source: int) -> "DecodingState":
        """Return the state with some of the sources, each for `rows_per_source` consecutive rows."""
        lengths, memory = self.lengths, self.memory
        if not torch.equal(sources, torch.arange(self.n_sources, device=sources.device)):
            lengths = None if lengths is None else lengths.index_select(0, sources)
            memory = tuple(None if source is None else source.select(sources) for source in memory)
        state = replace(self, lengths=lengths, memory=memory, rows_per_source=rows_per_source)
        if self.compiled is None:
            return state
        source_rows = SourceRows.of(state.sources, lengths, rows_per_source)
        return replace(state, compiled=self.compiled.with_sources(source_rows))

    @property
    def sources(self) -> tuple[KeyValue, ...]:
        """The source as keys and values of each block; empty for a language model."""
        return tuple(source for source in self.memory if source is not None)

    @property
    def n_sources(self) -> int:
        """How many sources the rows read; for a language model, which reads none, how many rows there are."""
        if self.memory[0] is not None:
            return len(self.memory[0].key)
        return 0 if self.cache is None else self.cache.rows

    def __repr__(self) -> str:
        rows = f", rows={self.n_sources * self.rows_per_source}" if self.n_sources else ""
        source = "" if self.memory[0] is None else f", source={self.memory[0].n_tokens}"
        return f"DecodingState(n_tokens={self.n_tokens}{rows}{source}, layers={len(self.memory)})"


def group_by_source(sources: Int[Tensor, " rows"]) -> tuple[Int[Tensor, " sources"], int]:
    """Return the sources of the rows, each once, and how many consecutive rows read each; or each row's source and 1.

    >>> group_by_source(torch.tensor([4, 4, 7, 7])), group_by_source(torch.tensor([4, 4, 7]))
    ((tensor([4, 7]), 2), (tensor([4, 4, 7]), 1))
    """
    each, counts = torch.unique_consecutive(sources, return_counts=True)
    rows_per_source = len(sources) // max(len(each), 1)
    return (each, rows_per_source) if bool((counts == rows_per_source).all()) else (sources, 1)
