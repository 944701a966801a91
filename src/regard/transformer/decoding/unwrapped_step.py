"""The decoder for one token more in every row, as bare operations on tensors: where translation spends its time.

A decoder's own forward is made to be seen: it calls modules, checks arguments and keeps a pattern of every head. For
one token that takes several times as long as the sums themselves. Here is the same decoder, of the same parameters,
without it: the tokens before lie in room that is filled in place, and a pattern is made when somebody asks for it.

`kernel.py` does the same by a kernel where it can; `fast_step.py` says where a step may be taken so at all.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.layers.key_value import KeyValue
from regard.attention.layers.multi_head import MultiHeadAttention
from regard.attention.positions.rotary import Rotary
from regard.kernels.linear import Linear
from regard.transformer.block import DecoderBlock, Residual
from regard.transformer.decoding.cache import ROOM, Past, PastByBlock, Room
from regard.transformer.embedding import Embedding
from regard.transformer.feed_forward import FeedForward

Padding = Float[Tensor, "sources 1 1 source"]
"""What is added to scores of source tokens."""

Rows = Float[Tensor, "rows d_model"]
"""The vector of the newest token of each row."""

SourceQueries = tuple[Float[Tensor, "sources heads width d_head"], ...]
"""The queries of each block to the sources."""


@dataclass(frozen=True, slots=True, eq=False)
class BareDecoder:
    """A decoder that reads a source, as its tensors.

    Attributes:
        embedding: of tokens, with their positions.
        blocks: in their order, at least one.
        norm: of what comes out of the last; None where the last one has its own.
        to_logits: the output projection.
    """

    embedding: Embedding
    blocks: tuple["BareBlock", ...]
    norm: "Norm | None"
    to_logits: Linear

    @classmethod
    def of(cls, decoder: nn.Module) -> "BareDecoder":
        """The tensors, as they are now, of a decoder that is as the paper has it."""
        assert isinstance(decoder.embedding, Embedding)
        assert isinstance(decoder.blocks, Iterable)
        assert isinstance(decoder.norm, nn.LayerNorm | None)
        assert isinstance(decoder.to_logits, nn.Linear)
        norm = None if decoder.norm is None else Norm.of(decoder.norm)
        return cls(decoder.embedding, tuple(map(BareBlock.of, decoder.blocks)), norm, Linear.of(decoder.to_logits))

    def embed(self, tokens: Int[Tensor, " rows"], place: int) -> Rows:
        """The vectors of tokens at a place of their texts."""
        x = F.embedding(tokens, self.embedding.by_token.weight) * math.sqrt(self.embedding.d_model)
        places = self.embedding.places(1, place)
        return x if places is None else x + places

    def longer(self, past: Past | PastByBlock | None, x: Rows, sources: "Sources") -> Past:
        """The tokens before and one more, which is still to be written; for texts somewhat longer than their sources.

        Args:
            past: the tokens before; None = there are none.
        """
        if past is None:
            own, room = self.blocks[0].own, sources.n_tokens + ROOM
            numbers = x.new_empty(len(x), len(self.blocks), 2, own.n_key_heads, room, own.d_head)
            past = Past(Room(numbers, n_used=0), n_tokens=0)
        return past.longer()

    def read(self, x: Rows, past: Past, sources: "Sources") -> tuple[Rows, SourceQueries]:
        """Let the newest tokens go through all blocks, and write their keys and values into the past.

        Returns:
            What the output projection takes; and each block's queries to the sources.
        """
        queries = []
        for number, block in enumerate(self.blocks):
            x = block.around_own.leave(x, block.own.read_past(block.around_own.enter(x), past, number))
            looked, query = block.cross.read_source(block.around_cross.enter(x), sources, number)
            x = block.around_cross.leave(x, looked)
            x = block.around_feed_forward.leave(x, block.think(block.around_feed_forward.enter(x)))
            queries.append(query)
        return x if self.norm is None else self.norm(x), tuple(queries)

    @property
    def even(self) -> bool:
        """Whether keys and values have one shape in all blocks, as room for them does."""
        return len({(block.own.n_key_heads, block.own.d_head) for block in self.blocks}) == 1

    @property
    def finite(self) -> bool:
        """Whether finite tokens ask finite queries; PyTorch's kernel for few keys takes a row of NaN for zeros."""
        return all(bool(part.query.weight.sum().isfinite()) for b in self.blocks for part in (b.own, b.cross))


@dataclass(frozen=True, slots=True, eq=False)
class BareBlock:
    """A block of the decoder, as its tensors."""

    own: "OwnAttention"
    cross: "CrossAttention"
    widen: Linear
    narrow: Linear
    feed_forward: FeedForward
    around_own: "Around"
    around_cross: "Around"
    around_feed_forward: "Around"

    @classmethod
    def of(cls, block: DecoderBlock) -> "BareBlock":
        """A block's tensors."""
        assert block.cross_attention is not None
        assert block.around_cross_attention is not None
        return cls(
            own=OwnAttention.of(block.own_attention),
            cross=CrossAttention.of(block.cross_attention),
            widen=Linear.of(block.feed_forward.widen),
            narrow=Linear.of(block.feed_forward.narrow),
            feed_forward=block.feed_forward,
            around_own=Around.of(block.around_own_attention),
            around_cross=Around.of(block.around_cross_attention),
            around_feed_forward=Around.of(block.around_feed_forward),
        )

    def think(self, x: Rows) -> Rows:
        """The feed-forward network."""
        return self.narrow(self.feed_forward.bend(self.widen(x)))


@dataclass(frozen=True, eq=False)
class OwnAttention:
    """What the newest token reads from those before it and from itself, as its tensors."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    n_heads: int
    n_key_heads: int
    d_head: int
    positions: Rotary | None

    @classmethod
    def of(cls, attention: MultiHeadAttention) -> "OwnAttention":
        """The tensors of an attention."""
        return cls(
            query=Linear.of(attention.to_query),
            key=Linear.of(attention.to_key),
            value=Linear.of(attention.to_value),
            output=Linear.of(attention.to_output),
            n_heads=attention.n_heads,
            n_key_heads=attention.n_key_heads,
            d_head=attention.d_head,
            positions=attention.positions,
        )

    @cached_property
    def joined(self) -> Linear:
        """What makes queries, keys and values in one product, one behind the other."""
        all_three = self.query, self.key, self.value
        return Linear(torch.cat([one.weight for one in all_three]), torch.cat([one.bias for one in all_three]))

    def read_past(self, x: Rows, past: Past, block: int) -> Rows:
        """What the token reads, once its key and value are in the past."""
        heads = self.joined(x).view(len(x), -1, self.d_head)
        query = heads[:, : self.n_heads, None]
        key_value = heads[:, self.n_heads :].view(len(x), 2, self.n_key_heads, self.d_head)
        if self.positions is not None:
            place = torch.arange(past.n_tokens - 1, past.n_tokens, device=x.device)
            query, key = self.positions(query, place), self.positions(key_value[:, 0, :, None], place)
            key_value = torch.stack([key[:, :, 0], key_value[:, 1]], dim=1)
        past.room.numbers[: len(x), block, :, :, past.n_tokens - 1] = key_value
        known, grouped = past.block(block), self.n_heads != self.n_key_heads
        context = F.scaled_dot_product_attention(query, known.key, known.value, enable_gqa=grouped)
        return self.output(context.reshape(len(x), -1))


@dataclass(frozen=True, slots=True, eq=False)
class CrossAttention:
    """What the newest token reads from the source, as its tensors."""

    query: Linear
    output: Linear
    n_heads: int
    n_key_heads: int
    d_head: int

    @classmethod
    def of(cls, attention: MultiHeadAttention) -> "CrossAttention":
        """The tensors of an attention whose keys and values have been made."""
        sizes = attention.n_heads, attention.n_key_heads, attention.d_head
        return cls(Linear.of(attention.to_query), Linear.of(attention.to_output), *sizes)

    def read_source(
        self, x: Rows, sources: "Sources", block: int
    ) -> tuple[Rows, Float[Tensor, "sources heads width d_head"]]:
        """What the tokens read from their sources, and their queries."""
        source, grouped = sources.memory[block], self.n_heads != self.n_key_heads
        query = by_source(self.query(x), len(source.key), self.n_heads)
        read = F.scaled_dot_product_attention(query, source.key, source.value, sources.padding, enable_gqa=grouped)
        return self.output(read.transpose(1, 2).reshape(len(x), -1)), query


def by_source(
    queries: Float[Tensor, "rows d_model"], n_sources: int, n_heads: int
) -> Float[Tensor, "sources heads width d_head"]:
    """Queries of rows that lie side by side where they read the same source."""
    return queries.view(n_sources, len(queries) // n_sources, n_heads, -1).transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """A mean of 0 and a variance of 1, then gain and bias."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> "Norm":
        """A norm's tensors."""
        return cls(norm.weight.detach(), norm.bias.detach(), norm.eps)

    def __call__(self, x: Rows) -> Rows:
        """The vectors, normalised."""
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """The path round a sublayer, as its tensors."""

    norm: Norm
    before: bool

    @classmethod
    def of(cls, residual: Residual) -> "Around":
        """A path's tensors."""
        return cls(Norm.of(residual.norm), residual.before)

    def enter(self, x: Rows) -> Rows:
        """What the sublayer reads."""
        return self.norm(x) if self.before else x

    def leave(self, x: Rows, output: Rows) -> Rows:
        """What went in and what the sublayer made of it, together."""
        x = x + output
        return x if self.before else self.norm(x)


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The sources that rows read, each by as many rows side by side.

    Attributes:
        memory: as keys and values of each block.
        of_row: which source each row reads.
        lengths: how many tokens of its source are no padding, for each row; None = all.
        padding: the same as what is added to scores: -∞ on padding; None = there is no padding.
    """

    memory: tuple[KeyValue, ...]
    of_row: Int[Tensor, " rows"]
    lengths: Int[Tensor, " rows"] | None
    padding: Padding | None

    @classmethod
    def of(cls, memory: tuple[KeyValue, ...], lengths: Int[Tensor, " sources"] | None, width: int = 1) -> "Sources":
        """Sources that so many rows read each."""
        like, n_tokens = memory[0].key, memory[0].n_tokens
        of_row = torch.arange(len(like), device=like.device).repeat_interleave(width)
        each = torch.arange(n_tokens, device=like.device)
        if lengths is None or not bool((padded := each >= lengths[:, None]).any()):
            return cls(memory, of_row, None, None)
        padding = like.new_zeros(len(like), 1, 1, n_tokens).masked_fill_(padded[:, None, None], -torch.inf)
        return cls(memory, of_row, lengths.long().clamp(max=n_tokens)[of_row], padding)

    @property
    def n_tokens(self) -> int:
        """How many tokens the longest source has."""
        return self.memory[0].n_tokens
