"""The cached keys and values of earlier target tokens, so that no token is projected twice.

`BlockCache` stores the keys and values of each block separately, as `Decoder.forward` returns them. `BufferCache`, for
the CPU kernel, stores all blocks in one tensor with room for further tokens: a decoding step writes the new token into
it, and reordering the rows (as beam search does) changes a table of row numbers instead of copying tokens.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue

MIN_BUFFER_TOKENS = 8
"""A new buffer has room for at least this many tokens; a full buffer is replaced by a buffer twice as large."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockCache:
    """The cached keys and values of the target tokens so far: one `KeyValue` for each decoder block."""

    blocks: tuple[KeyValue, ...]

    @property
    def n_tokens(self) -> int:
        """The number of cached tokens of each target text."""
        return self.blocks[0].n_tokens

    @property
    def rows(self) -> int:
        """The number of target texts in the batch."""
        return len(self.blocks[0].key)

    def block(self, number: int) -> KeyValue:
        return self.blocks[number]

    def with_next_token(self) -> "BufferCache":
        """Return a `BufferCache` with a copy of the cached tokens and one more token, whose vectors are not set yet."""
        tokens = torch.stack([torch.stack([block.key, block.value], dim=1) for block in self.blocks], dim=1)
        return BufferCache(TokenBuffer(copy_with_room(tokens, MIN_BUFFER_TOKENS), self.n_tokens + 1), self.n_tokens + 1)

    def select(self, rows: Int[Tensor, " rows"]) -> "BlockCache":
        """Return the cache of the target texts with the indices `rows`, in the order of `rows`."""
        return BlockCache(tuple(block.select(rows) for block in self.blocks))


@dataclass(slots=True, eq=False)
class TokenBuffer:
    """The keys and values of all decoder blocks in one tensor, to which each decoding step appends one token.

    Several `BufferCache`s may share it.

    Attributes:
        vectors: the keys (index 0 of axis 2) and the values (index 1). Tokens from n_written on are not set.
        n_written: the number of tokens written so far. A `BufferCache` with fewer tokens must copy the buffer before it
            appends a token, because another cache uses the next position.
    """

    vectors: Float[Tensor, "rows blocks 2 key_heads room d_head"]
    n_written: int


@dataclass(frozen=True, slots=True, eq=False)
class BufferCache:
    """The cached keys and values of the target tokens so far: the first `n_tokens` tokens in a buffer.

    Attributes:
        buffer: the tensor with the keys and values, shared with the caches of earlier and later decoding steps.
        n_tokens: the number of cached tokens of each target text.
        buffer_rows: for each target text and token, the row of the buffer that contains the token's keys and values;
            None = the tokens of text r are in row r.
    """

    buffer: TokenBuffer
    n_tokens: int
    buffer_rows: Int[Tensor, "rows tokens"] | None = None

    @property
    def rows(self) -> int:
        """The number of target texts in the batch."""
        return (self.buffer.vectors if self.buffer_rows is None else self.buffer_rows).shape[0]

    @property
    def row_table(self) -> Int[Tensor, "rows tokens"]:
        """For each target text and token, the row of the buffer that contains the token's keys and values."""
        if self.buffer_rows is not None:
            return self.buffer_rows
        return row_column(self.rows, self.buffer.vectors.device).expand(-1, self.n_tokens)

    def block(self, number: int) -> KeyValue:
        key, value = self.tokens(slice(number, number + 1))[:, 0].unbind(1)
        return KeyValue(key=key, value=value)

    def tokens(self, blocks: slice = slice(None)) -> Float[Tensor, "rows blocks 2 key_heads tokens d_head"]:
        """Return the keys and values of some decoder blocks; row r of the result has the tokens of target text r.

        The keys and values are copied unless they have this order in the buffer.
        """
        vectors = self.buffer.vectors[:, blocks, :, :, : self.n_tokens]
        if self.buffer_rows is None:
            return vectors
        token_numbers = torch.arange(self.n_tokens, device=vectors.device)
        return vectors.movedim(4, 1)[self.buffer_rows, token_numbers].movedim(1, 4)

    def with_next_token(self) -> "BufferCache":
        """Return a cache with one more token of each target text, whose keys and values are not set yet.

        The cached tokens are copied to a new buffer only if the buffer is full, has too few rows or is read-only, or
        if a step from the same cache has already written the next token.
        """
        buffer, n, buffer_rows = self.buffer, self.n_tokens, self.buffer_rows
        # PyTorch forbids writing to an inference tensor outside inference mode.
        read_only = buffer.vectors.is_inference() and not torch.is_inference_mode_enabled()
        n_buffer_rows, room = buffer.vectors.shape[0], buffer.vectors.shape[4]
        if buffer.n_written > n or n == room or self.rows > n_buffer_rows or read_only:
            buffer, buffer_rows = TokenBuffer(copy_with_room(self.tokens(), room), n), None
        elif buffer_rows is not None:
            buffer_rows = torch.cat([buffer_rows, row_column(self.rows, buffer_rows.device)], dim=1)
        buffer.n_written = n + 1
        return BufferCache(buffer, n + 1, buffer_rows)

    def select(self, rows: Int[Tensor, " rows"]) -> "BufferCache":
        """Return the cache of the target texts with the indices `rows`, without copying keys or values."""
        if self.buffer_rows is None:
            return BufferCache(self.buffer, self.n_tokens, rows[:, None].expand(-1, self.n_tokens))
        return BufferCache(self.buffer, self.n_tokens, self.buffer_rows.index_select(0, rows))


def copy_with_room(
    tokens: Float[Tensor, "rows blocks 2 key_heads tokens d_head"], room: int
) -> Float[Tensor, "rows blocks 2 key_heads room d_head"]:
    """Return a copy of cached tokens, followed by free memory for further tokens.

    Args:
        room: the size of the token axis of the copy; if `tokens` has at least as many tokens, the size is twice the
            number of tokens instead.
    """
    n_tokens = tokens.shape[4]
    copy = tokens.new_empty(*tokens.shape[:4], room if n_tokens < room else 2 * n_tokens, tokens.shape[5])
    copy[..., :n_tokens, :] = tokens
    return copy


@lru_cache(maxsize=256)
def row_column(rows: int, device: torch.device) -> Int[Tensor, "rows 1"]:
    """Return the numbers 0, 1, …, rows - 1 as a column; the tensor is cached, and must not be changed."""
    return torch.arange(rows, device=device)[:, None]
