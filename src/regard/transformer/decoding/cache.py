"""The keys and values of the target's earlier tokens, so that no token is projected twice.

`BlockCache` holds them as the decoder's blocks return them. `BufferCache` holds those of all blocks in one tensor with
room for tokens to come: a decoding step writes its token there, and the token stays where it is when search reorders
the rows.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue

SPARE_TOKENS = 8
"""Tokens that a new buffer has room for beyond those that it holds; a full buffer is replaced by one twice as large."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockCache:
    """The keys and values of each block, at least one block's."""

    blocks: tuple[KeyValue, ...]

    @property
    def n_tokens(self) -> int:
        """How many tokens each row has."""
        return self.blocks[0].n_tokens

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return len(self.blocks[0].key)

    def block(self, number: int) -> KeyValue:
        """Return the keys and values of one block."""
        return self.blocks[number]

    def with_next_token(self) -> "BufferCache":
        """Return a copy of the tokens in a buffer, and one token more, which is still to be written."""
        tokens = torch.stack([torch.stack([block.key, block.value], dim=1) for block in self.blocks], dim=1)
        return BufferCache(TokenBuffer(copy_with_room(tokens, SPARE_TOKENS), self.n_tokens + 1), self.n_tokens + 1)

    def select(self, rows: Int[Tensor, " rows"]) -> "BlockCache":
        """Return the tokens of some texts, in the order of `rows`."""
        return BlockCache(tuple(block.select(rows) for block in self.blocks))


@dataclass(slots=True, eq=False)
class TokenBuffer:
    """Keys and values of all blocks in one tensor, with room for tokens to come.

    Attributes:
        vectors: for each text and block the keys, then the values.
        n_written: how many tokens are written; a cache with fewer tokens must not write behind its own.
    """

    vectors: Float[Tensor, "rows blocks 2 key_heads room d_head"]
    n_written: int


@dataclass(frozen=True, slots=True, eq=False)
class BufferCache:
    """The keys and values of all blocks in a buffer, which caches of later tokens share.

    Attributes:
        buffer: where the tokens are written.
        n_tokens: how many tokens each row has.
        buffer_rows: the row of the buffer in which each token is written; None = each row's tokens in its own.
    """

    buffer: TokenBuffer
    n_tokens: int
    buffer_rows: Int[Tensor, "rows tokens"] | None = None

    @property
    def rows(self) -> int:
        """How many texts there are."""
        return len(self.buffer.vectors if self.buffer_rows is None else self.buffer_rows)

    @property
    def row_table(self) -> Int[Tensor, "rows tokens"]:
        """For each text and position, the row of the buffer that holds the token's keys and values."""
        if self.buffer_rows is not None:
            return self.buffer_rows
        return own_rows(self.rows, self.n_tokens, self.buffer.vectors.device)

    def block(self, number: int) -> KeyValue:
        """Return the keys and values of one block."""
        key, value = self.tokens(slice(number, number + 1))[:, 0].unbind(1)
        return KeyValue(key=key, value=value)

    def tokens(self, blocks: slice = slice(None)) -> Float[Tensor, "rows blocks 2 key_heads tokens d_head"]:
        """Return the tokens of some blocks, row by row."""
        vectors = self.buffer.vectors[:, blocks, :, :, : self.n_tokens]
        if self.buffer_rows is None:
            return vectors
        each = torch.arange(self.n_tokens, device=vectors.device)
        return vectors.movedim(4, 1)[self.buffer_rows, each].movedim(1, 4)

    def with_next_token(self) -> "BufferCache":
        """Return the same tokens and one more, which is still to be written, in the same buffer if that has room.

        Several steps may go on from one state: only the first finds the room behind the state's tokens unused.
        """
        buffer, n, buffer_rows = self.buffer, self.n_tokens, self.buffer_rows
        # A tensor made in inference mode may not be written outside of it.
        read_only = buffer.vectors.is_inference() and not torch.is_inference_mode_enabled()
        if buffer.n_written > n or n == buffer.vectors.shape[4] or self.rows > len(buffer.vectors) or read_only:
            buffer, buffer_rows = TokenBuffer(copy_with_room(self.tokens(), buffer.vectors.shape[4]), n), None
        elif buffer_rows is not None:
            buffer_rows = torch.cat([buffer_rows, own_rows(len(buffer_rows), 1, buffer_rows.device)], dim=1)
        buffer.n_written = n + 1
        return BufferCache(buffer, n + 1, buffer_rows)

    def select(self, rows: Int[Tensor, " rows"]) -> "BufferCache":
        """Return the tokens of some texts, in the order of `rows`; no token is copied."""
        if self.buffer_rows is None:
            return BufferCache(self.buffer, self.n_tokens, rows[:, None].expand(-1, self.n_tokens))
        return BufferCache(self.buffer, self.n_tokens, self.buffer_rows.index_select(0, rows))


def copy_with_room(
    tokens: Float[Tensor, "rows blocks 2 key_heads tokens d_head"], room: int
) -> Float[Tensor, "rows blocks 2 key_heads room d_head"]:
    """Return a copy of tokens with room for `room` of them, or for twice as many as there are if they would fill it."""
    n_tokens = tokens.shape[4]
    copy = tokens.new_empty(*tokens.shape[:4], room if n_tokens < room else 2 * n_tokens, tokens.shape[5])
    copy[..., :n_tokens, :] = tokens
    return copy


def own_rows(rows: int, tokens: int, device: torch.device) -> Int[Tensor, "rows tokens"]:
    """Return a row table in which each row's tokens are in the row itself."""
    return torch.arange(rows, device=device)[:, None].expand(-1, tokens)
