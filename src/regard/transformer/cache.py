"""What a decoder knows between two steps: the source, prepared once, and the target's tokens so far."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.multi_head import KeyValue


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class State:
    """A value: a step gives a new one and leaves this one as it is.

    Rows that lie side by side and read the same source, as a beam's do, share its keys and values.

    Attributes:
        lengths: how many tokens of each source are no padding; None = all.
        memory: the source as keys and values of each block's cross-attention; None where there is no source.
        own: the target's tokens so far as keys and values of each block; None before the first.
        width: how many rows, side by side, read each source.
    """

    lengths: Int[Tensor, " sources"] | None
    memory: tuple[KeyValue | None, ...]
    own: tuple[KeyValue | None, ...]
    width: int = 1

    @property
    def n_tokens(self) -> int:
        """How many target tokens have been read."""
        return 0 if self.own[0] is None else self.own[0].n_tokens

    def select(self, rows: Int[Tensor, " rows"]) -> "State":
        """The state of some rows of the batch, in the order asked for; a row may come several times."""
        own = tuple(select(known, rows) for known in self.own)
        if self.memory[0] is None:
            return replace(self, own=own)
        sources, width = shared(rows // self.width)
        every = torch.arange(self.n_sources, device=rows.device)
        if len(sources) == len(every) and torch.equal(sources, every):
            return replace(self, own=own, width=width)
        lengths = None if self.lengths is None else self.lengths.index_select(0, sources)
        memory = tuple(select(known, sources) for known in self.memory)
        return State(lengths=lengths, memory=memory, own=own, width=width)

    @property
    def n_sources(self) -> int:
        """How many sources the rows read; of a language model, which reads none, its rows."""
        known = self.memory[0] or self.own[0]
        return 0 if known is None else len(known.key)

    def __repr__(self) -> str:
        rows = f", rows={self.n_sources * self.width}" if self.n_sources else ""
        source = "" if self.memory[0] is None else f", source={self.memory[0].n_tokens}"
        return f"State(n_tokens={self.n_tokens}{rows}{source}, layers={len(self.own)})"


def shared(sources: Int[Tensor, " rows"]) -> tuple[Int[Tensor, " sources"], int]:
    """The sources of some rows, each once for as many rows side by side, and how many those are.

    >>> shared(torch.tensor([4, 4, 7, 7])), shared(torch.tensor([4, 4, 7]))
    ((tensor([4, 7]), 2), (tensor([4, 4, 7]), 1))
    """
    each, counts = torch.unique_consecutive(sources, return_counts=True)
    width = len(sources) // max(len(each), 1)
    return (each, width) if bool((counts == width).all()) else (sources, 1)


def select(known: KeyValue | None, rows: Int[Tensor, " rows"]) -> KeyValue | None:
    """Keys and values of some rows of the batch."""
    if known is None:
        return None
    return KeyValue(key=known.key.index_select(0, rows), value=known.value.index_select(0, rows))
