"""The target's tokens so far as keys and values of every block, so that none is projected twice.

`PastByBlock` holds them as the decoder's blocks made them; `Past` holds them in one tensor with room for more behind,
which search goes on in: one copy takes rows of all blocks, and a new token is written where it belongs.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.multi_head import KeyValue

ROOM = 8
"""Tokens that room is made for at a time."""


@dataclass(slots=True, eq=False)
class Room:
    """Keys and values of every block in one tensor, with room behind them for those of tokens to come.

    Attributes:
        numbers: of every text, block by block and head by head, keys and then values.
        n_used: how many tokens of it are written; whoever knows of fewer must not write behind those.
    """

    numbers: Float[Tensor, "rows blocks 2 key_heads room d_head"]
    n_used: int


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Tokens of all blocks in one tensor; a value, although who goes on from it writes behind it in the same room."""

    room: Room
    n_tokens: int

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return len(self.room.numbers)

    def block(self, number: int) -> KeyValue:
        """The tokens as keys and values of one block."""
        key, value = self.room.numbers[:, number, :, :, : self.n_tokens].unbind(1)
        return KeyValue(key=key, value=value)

    def longer(self) -> "Past":
        """The same tokens and one more, which is still to be written; in the same room where that is free.

        A state may be gone on from several times: only the first to do so finds the room behind its tokens unused.
        """
        room, n = self.room, self.n_tokens
        # What inference mode has made may not be written outside of it
        foreign = room.numbers.is_inference() and not torch.is_inference_mode_enabled()
        if room.n_used > n or n == room.numbers.shape[4] or foreign:
            room = Room(with_room(room.numbers, n), n)
        room.n_used = n + 1
        return Past(room, n + 1)

    def select(self, rows: Int[Tensor, " rows"]) -> "Past":
        """The tokens of some texts, in the order asked for."""
        return Past(Room(self.room.numbers.index_select(0, rows), self.n_tokens), self.n_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class PastByBlock:
    """Tokens as each block made them, at least one block's."""

    blocks: tuple[KeyValue, ...]

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return self.blocks[0].n_tokens

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return len(self.blocks[0].key)

    def block(self, number: int) -> KeyValue:
        """The tokens as keys and values of one block."""
        return self.blocks[number]

    def longer(self) -> Past:
        """The same tokens and one more, which is still to be written, in one tensor."""
        numbers = torch.stack([torch.stack([known.key, known.value], dim=1) for known in self.blocks], dim=1)
        return Past(Room(with_room(numbers, self.n_tokens), self.n_tokens + 1), self.n_tokens + 1)

    def select(self, rows: Int[Tensor, " rows"]) -> "PastByBlock":
        """The tokens of some texts, in the order asked for."""
        return PastByBlock(tuple(known.select(rows) for known in self.blocks))


def with_room(
    numbers: Float[Tensor, "rows blocks 2 key_heads tokens d_head"], n_tokens: int
) -> Float[Tensor, "rows blocks 2 key_heads room d_head"]:
    """A copy of the first tokens, with room for more behind them."""
    copy = numbers.new_empty(*numbers.shape[:4], n_tokens + ROOM, numbers.shape[5])
    copy[..., :n_tokens, :] = numbers[..., :n_tokens, :]
    return copy
