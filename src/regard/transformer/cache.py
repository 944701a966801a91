"""What a decoder knows between two steps: the source, prepared once, and the target's tokens so far."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from regard.attention.multi_head import KeyValue


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class State:
    """A value: a step gives a new one and leaves this one as it is.

    Attributes:
        lengths: how many tokens of each source are no padding; None = all.
        memory: the source as keys and values of each block's cross-attention; None where there is no source.
        own: the target's tokens so far as keys and values of each block; None before the first.
    """

    lengths: Int[Tensor, " batch"] | None
    memory: tuple[KeyValue | None, ...]
    own: tuple[KeyValue | None, ...]

    @property
    def n_tokens(self) -> int:
        """How many target tokens have been read."""
        return 0 if self.own[0] is None else self.own[0].n_tokens

    def select(self, rows: Int[Tensor, " rows"]) -> "State":
        """The state of some rows of the batch, in the order asked for; a row may come several times."""
        return State(
            lengths=None if self.lengths is None else self.lengths.index_select(0, rows),
            memory=tuple(select(known, rows) for known in self.memory),
            own=tuple(select(known, rows) for known in self.own),
        )

    def __repr__(self) -> str:
        known = self.memory[0] or self.own[0]
        rows = "" if known is None else f", rows={len(known.key)}"
        source = "" if self.memory[0] is None else f", source={self.memory[0].n_tokens}"
        return f"State(n_tokens={self.n_tokens}{rows}{source}, layers={len(self.own)})"


def select(known: KeyValue | None, rows: Int[Tensor, " rows"]) -> KeyValue | None:
    """Keys and values of some rows of the batch."""
    if known is None:
        return None
    return KeyValue(key=known.key.index_select(0, rows), value=known.value.index_select(0, rows))
