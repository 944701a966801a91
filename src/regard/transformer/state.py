"""What a decoder knows between two steps: the source, prepared once, and the target's tokens so far."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.multi_head import KeyValue
from regard.transformer.bare import BareDecoder, Padding
from regard.transformer.cache import Past, PastByBlock


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class State:
    """A value: a step gives a new one and leaves this one as it is.

    Rows that lie side by side and read the same source, as a beam's do, share its keys and values.

    Attributes:
        lengths: how many tokens of each source are no padding; None = all.
        memory: the source as keys and values of each block's cross-attention; None where there is no source.
        past: the target's tokens so far; None before the first.
        width: how many rows, side by side, read each source.
        bare: what takes a step of one token without modules and patterns; None = the decoder itself must.
        padding: what `bare` adds to scores of the source: -∞ on padding; None = there is no padding.
    """

    lengths: Int[Tensor, " sources"] | None
    memory: tuple[KeyValue | None, ...]
    past: Past | PastByBlock | None = None
    width: int = 1
    bare: BareDecoder | None = None
    padding: Padding | None = None

    @property
    def n_tokens(self) -> int:
        """How many target tokens have been read."""
        return 0 if self.past is None else self.past.n_tokens

    def select(self, rows: Int[Tensor, " rows"]) -> "State":
        """The state of some rows of the batch, in the order asked for; a row may come several times."""
        past = None if self.past is None else self.past.select(rows)
        if self.memory[0] is None:
            return replace(self, past=past)
        sources, width = shared(rows // self.width)
        if len(sources) == self.n_sources and torch.equal(sources, torch.arange(len(sources), device=rows.device)):
            return replace(self, past=past, width=width)
        return replace(
            self,
            lengths=None if self.lengths is None else self.lengths.index_select(0, sources),
            memory=tuple(None if known is None else known.select(sources) for known in self.memory),
            past=past,
            width=width,
            padding=None if self.padding is None else self.padding.index_select(0, sources),
        )

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
