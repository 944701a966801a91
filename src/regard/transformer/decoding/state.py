"""What a decoder knows between two steps: the source, prepared once, and the target's tokens so far."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue
from regard.transformer.decoding.cache import Past, PastByBlock
from regard.transformer.decoding.fast_step import Shortcut
from regard.transformer.decoding.unwrapped_step import Sources


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class State:
    """A value: a step gives a new one and leaves this one as it is.

    Rows that lie side by side and read the same source, as a beam's do, share its keys and values.

    Attributes:
        lengths: how many tokens of each source are no padding; None = all.
        memory: the source as keys and values of each block's cross-attention; None where there is no source.
        past: the target's tokens so far; None before the first.
        width: how many rows, side by side, read each source.
        shortcut: what takes a step of one token without modules and patterns; None = the decoder itself must.
    """

    lengths: Int[Tensor, " sources"] | None
    memory: tuple[KeyValue | None, ...]
    past: Past | PastByBlock | None = None
    width: int = 1
    shortcut: Shortcut | None = None

    @property
    def n_tokens(self) -> int:
        """How many target tokens have been read."""
        return 0 if self.past is None else self.past.n_tokens

    def select(self, rows: Int[Tensor, " rows"]) -> "State":
        """The state of some rows of the batch, in the order asked for; a row may come several times."""
        past = None if self.past is None else self.past_of(rows, self.past)
        if self.memory[0] is None:
            return replace(self, past=past)
        sources = rows // self.width
        if self.shortcut is not None and self.shortcut.reads(sources):
            return replace(self, past=past)
        return self.reading(*shared(sources), past)

    def past_of(self, rows: Int[Tensor, " rows"], past: Past | PastByBlock) -> Past | PastByBlock:
        """Some rows of the past, left where they lie if they can be read there."""
        if isinstance(past, Past) and self.shortcut is not None and self.shortcut.newest is not None:
            return past.placed(rows)
        return past.select(rows)

    def reading(self, sources: Int[Tensor, " sources"], width: int, past: Past | PastByBlock | None) -> "State":
        """A state whose rows, so many side by side, read some of the sources."""
        lengths, memory = self.lengths, self.memory
        if not torch.equal(sources, torch.arange(self.n_sources, device=sources.device)):
            lengths = None if lengths is None else lengths.index_select(0, sources)
            memory = tuple(None if known is None else known.select(sources) for known in memory)
        state = replace(self, lengths=lengths, memory=memory, past=past, width=width)
        if self.shortcut is None:
            return state
        return replace(state, shortcut=self.shortcut.reading(Sources.of(state.sources, lengths, width)))

    @property
    def sources(self) -> tuple[KeyValue, ...]:
        """The source as keys and values of each block; of a language model none."""
        return tuple(known for known in self.memory if known is not None)

    @property
    def n_sources(self) -> int:
        """How many sources the rows read; of a language model, which reads none, its rows."""
        if self.memory[0] is not None:
            return len(self.memory[0].key)
        return 0 if self.past is None else self.past.rows

    def __repr__(self) -> str:
        rows = f", rows={self.n_sources * self.width}" if self.n_sources else ""
        source = "" if self.memory[0] is None else f", source={self.memory[0].n_tokens}"
        return f"State(n_tokens={self.n_tokens}{rows}{source}, layers={len(self.memory)})"


def shared(sources: Int[Tensor, " rows"]) -> tuple[Int[Tensor, " sources"], int]:
    """The sources of some rows, each once for as many rows side by side, and how many those are.

    >>> shared(torch.tensor([4, 4, 7, 7])), shared(torch.tensor([4, 4, 7]))
    ((tensor([4, 7]), 2), (tensor([4, 4, 7]), 1))
    """
    each, counts = torch.unique_consecutive(sources, return_counts=True)
    width = len(sources) // max(len(each), 1)
    return (each, width) if bool((counts == width).all()) else (sources, 1)
