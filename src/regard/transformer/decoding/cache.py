"""The target's tokens so far as keys and values of every block, so that none is projected twice.

`PastByBlock` holds them as the decoder's blocks made them; `Past` holds them in one tensor with room for more behind,
which search goes on in: a new token is written where it belongs, and stays there when the rows change places.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue

ROOM = 8
"""Tokens that room is made for where nothing tells how many will come; full room is made twice as large."""


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
    """Tokens of all blocks in one tensor; a value, although who goes on from it writes behind it in the same room.

    Attributes:
        room: where they lie.
        n_tokens: how many each row has.
        places: in which row of the room each of them lies; None = each in its own.
    """

    room: Room
    n_tokens: int
    places: Int[Tensor, "rows tokens"] | None = None

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return len(self.room.numbers if self.places is None else self.places)

    @property
    def table(self) -> Int[Tensor, "rows tokens"]:
        """In which row of the room each token lies."""
        return own_row(self.rows, self.n_tokens, self.room.numbers) if self.places is None else self.places

    def block(self, number: int) -> KeyValue:
        """The tokens as keys and values of one block."""
        key, value = self.tokens(slice(number, number + 1))[:, 0].unbind(1)
        return KeyValue(key=key, value=value)

    def tokens(self, blocks: slice = slice(None)) -> Float[Tensor, "rows blocks 2 key_heads tokens d_head"]:
        """The tokens of some blocks, row by row."""
        numbers = self.room.numbers[:, blocks, :, :, : self.n_tokens]
        if self.places is None:
            return numbers
        each = torch.arange(self.n_tokens, device=numbers.device)
        return numbers.movedim(4, 1)[self.places, each].movedim(1, 4)

    def longer(self) -> "Past":
        """The same tokens and one more, which is still to be written; in the same room where that is free.

        A state may be gone on from several times: only the first to do so finds the room behind its tokens unused.
        """
        room, n, places = self.room, self.n_tokens, self.places
        # What inference mode has made may not be written outside of it
        foreign = room.numbers.is_inference() and not torch.is_inference_mode_enabled()
        if room.n_used > n or n == room.numbers.shape[4] or self.rows > len(room.numbers) or foreign:
            room, places = Room(with_room(self.tokens(), room.numbers.shape[4]), n), None
        elif places is not None:
            places = torch.cat([places, own_row(len(places), 1, places)], dim=1)
        room.n_used = n + 1
        return Past(room, n + 1, places)

    def select(self, rows: Int[Tensor, " rows"]) -> "Past":
        """The tokens of some texts, in the order asked for."""
        numbers = self.room.numbers if self.places is None else self.tokens()
        return Past(Room(numbers.index_select(0, rows), self.n_tokens), self.n_tokens)

    def placed(self, rows: Int[Tensor, " rows"]) -> "Past":
        """The same; the tokens stay where they are, for a kernel that reads them there."""
        if self.places is None:
            return Past(self.room, self.n_tokens, rows[:, None].expand(-1, self.n_tokens))
        return Past(self.room, self.n_tokens, self.places.index_select(0, rows))


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
        return Past(Room(with_room(numbers, ROOM), self.n_tokens + 1), self.n_tokens + 1)

    def select(self, rows: Int[Tensor, " rows"]) -> "PastByBlock":
        """The tokens of some texts, in the order asked for."""
        return PastByBlock(tuple(known.select(rows) for known in self.blocks))


def with_room(
    tokens: Float[Tensor, "rows blocks 2 key_heads tokens d_head"], at_least: int
) -> Float[Tensor, "rows blocks 2 key_heads room d_head"]:
    """A copy of tokens in room for so many, or for twice as many as there are where those would fill it."""
    n_tokens = tokens.shape[4]
    room = at_least if n_tokens < at_least else 2 * n_tokens
    copy = tokens.new_empty(*tokens.shape[:4], room, tokens.shape[5])
    copy[..., :n_tokens, :] = tokens
    return copy


def own_row(rows: int, tokens: int, like: Tensor) -> Int[Tensor, "rows tokens"]:
    """Where tokens lie that are all in their own row."""
    return torch.arange(rows, device=like.device)[:, None].expand(-1, tokens)
