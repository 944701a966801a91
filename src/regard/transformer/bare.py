"""The decoder for one token more in every row, as bare operations on tensors: where translation spends its time.

A decoder's own forward is made to be seen: it calls modules, checks arguments and keeps a pattern of every head. For
one token that takes several times as long as the sums themselves. Here is the same decoder, of the same parameters,
without it: queries, keys and values come from one product, the tokens before lie in room that is filled in place and
are read where they lie (`one_token.py`), and a pattern is made when somebody asks for it.

Where anything is not as the paper has it (a module that was replaced, a hook, another score, parameters that are not
finite or lie on other machines) there is no such shortcut, and the decoder's own forward takes the step.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.backends.choice import ASKED
from regard.attention.backends.one_token import one_token, why_not
from regard.attention.linear import Linear, hooked, just_numbers
from regard.attention.multi_head import KeyValue, MultiHeadAttention
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.positions import LearnedPositions, Rotary
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.transformer.block import DecoderBlock, Residual
from regard.transformer.cache import ROOM, Past, PastByBlock, Room
from regard.transformer.dropout import Dropout
from regard.transformer.embedding import Embedding
from regard.transformer.feed_forward import FeedForward

Padding = Float[Tensor, "sources 1 1 source"]
"""What is added to scores of source tokens."""

Rows = Float[Tensor, "rows d_model"]
"""The vector of the newest token of each row."""

KNOWN = (
    DecoderBlock, MultiHeadAttention, FeedForward, Residual, Embedding, LearnedPositions, Dropout,
    nn.Embedding, nn.LayerNorm, nn.Linear, nn.ModuleList,
)  # fmt: skip
"""The modules whose sums are written down here."""


@dataclass(frozen=True, slots=True, eq=False)
class BareDecoder:
    """A decoder that reads a source, as its tensors.

    Attributes:
        embedding: of tokens, with their positions.
        blocks: in their order.
        norm: of what comes out of the last; None where the last one has its own.
        to_logits: the output projection.
    """

    embedding: Embedding
    blocks: tuple["BareBlock", ...]
    norm: nn.LayerNorm | None
    to_logits: Linear

    @classmethod
    def of(cls, decoder: nn.Module) -> "BareDecoder | None":
        """The decoder's tensors as they are now; None where this file does not know all that it does."""
        if decoder.training or hooked(decoder) or not all(map(known, list(decoder.modules())[1:])):
            return None
        assert isinstance(decoder.blocks, Iterable)
        blocks = tuple(map(BareBlock.of, decoder.blocks))
        if not all(block.finite for block in blocks):
            return None
        return cls(decoder.embedding, blocks, decoder.norm, Linear.of(decoder.to_logits))  # type: ignore[arg-type]

    def step(
        self, tokens: Int[Tensor, "rows 1"], past: Past | PastByBlock | None, sources: "Sources"
    ) -> tuple[Float[Tensor, "rows 1 vocabulary"], Past, tuple[Float[Tensor, "sources heads width d_head"], ...]]:
        """Read one token more of each row.

        Args:
            tokens: ids.
            past: the tokens before; None = there are none.
            sources: what the rows read besides.

        Returns:
            Scores of what comes next; the tokens with the new one; what each block asked of the source.
        """
        x = self.embed(tokens[:, 0], 0 if past is None else past.n_tokens)
        longer, asked = (self.no_past(x, sources) if past is None else past).longer(), []
        for number, block in enumerate(self.blocks):
            x = block.around_own.leave(x, block.own.read_past(block.around_own.enter(x), longer, number))
            looked, query = block.cross.read_source(block.around_cross.enter(x), sources, number)
            x = block.around_cross.leave(x, looked)
            x = block.around_feed_forward.leave(x, block.think(block.around_feed_forward.enter(x)))
            asked.append(query)
        return self.to_logits(x if self.norm is None else self.norm(x))[:, None], longer, tuple(asked)

    def embed(self, tokens: Int[Tensor, " rows"], place: int) -> Rows:
        """The vectors of tokens at a place of their texts."""
        x = F.embedding(tokens, self.embedding.by_token.weight) * math.sqrt(self.embedding.d_model)
        places = self.embedding.places(1, place)
        return x if places is None else x + places

    def no_past(self, x: Rows, sources: "Sources") -> Past:
        """The past of rows that have none, with room for texts somewhat longer than their sources."""
        own = self.blocks[0].own
        numbers = x.new_empty(len(x), len(self.blocks), 2, own.n_key_heads, sources.n_tokens + ROOM, own.d_head)
        return Past(Room(numbers, n_used=0), n_tokens=0)


@dataclass(frozen=True, slots=True, eq=False)
class BareBlock:
    """A block of the decoder, as its tensors."""

    own: "BareAttention"
    cross: "BareAttention"
    widen: Linear
    narrow: Linear
    feed_forward: FeedForward
    around_own: "Around"
    around_cross: "Around"
    around_feed_forward: "Around"

    @classmethod
    def of(cls, block: DecoderBlock) -> "BareBlock":
        """A block's tensors."""
        own, cross, feed_forward = block.own_attention, block.cross_attention, block.feed_forward
        assert cross is not None
        assert block.around_cross_attention is not None
        return cls(
            own=BareAttention.of(own, own.to_query, own.to_key, own.to_value),
            cross=BareAttention.of(cross, cross.to_query),
            widen=Linear.of(feed_forward.widen),
            narrow=Linear.of(feed_forward.narrow),
            feed_forward=feed_forward,
            around_own=Around.of(block.around_own_attention),
            around_cross=Around.of(block.around_cross_attention),
            around_feed_forward=Around.of(block.around_feed_forward),
        )

    def think(self, x: Rows) -> Rows:
        """The feed-forward network."""
        return self.narrow(self.feed_forward.bend(self.widen(x)))

    @property
    def finite(self) -> bool:
        """Whether finite tokens ask finite queries; a kernel for few keys takes a row of NaN for zeros."""
        return all(bool(part.enter.weight.sum().isfinite()) for part in (self.own, self.cross))


@dataclass(frozen=True, slots=True, eq=False)
class BareAttention:
    """Multi-head attention, as its tensors.

    Attributes:
        enter: what makes queries, or queries, keys and values, one behind the other.
        leave: the output projection.
    """

    enter: Linear
    leave: Linear
    n_heads: int
    n_key_heads: int
    d_head: int
    positions: Rotary | None

    @classmethod
    def of(cls, attention: MultiHeadAttention, *enter: nn.Linear) -> "BareAttention":
        """The tensors of an attention, some of its projections joined to one."""
        sizes = attention.n_heads, attention.n_key_heads, attention.d_head
        return cls(Linear.of(*enter), Linear.of(attention.to_output), *sizes, attention.positions)

    def read_past(self, x: Rows, past: Past, block: int) -> Rows:
        """What the newest token reads from those before it and from itself, once its key and value are in the past."""
        n_rows, d_query = len(x), self.n_heads * self.d_head
        entered = self.enter(x)
        query = entered[:, :d_query].view(n_rows, self.n_heads, 1, self.d_head)
        key_value = entered[:, d_query:].view(n_rows, 2, self.n_key_heads, self.d_head)
        if self.positions is not None:
            place = torch.arange(past.n_tokens - 1, past.n_tokens, device=x.device)
            query, key = self.positions(query, place), self.positions(key_value[:, 0, :, None], place)
            key_value = torch.stack([key[:, :, 0], key_value[:, 1]], dim=1)
        numbers = past.room.numbers
        numbers[:n_rows, block, :, :, past.n_tokens - 1] = key_value
        if why_not(numbers) is None:
            context = one_token(query, numbers[:, block, 0], numbers[:, block, 1], past.table)
        else:
            known = past.block(block)
            context = F.scaled_dot_product_attention(query, known.key, known.value, enable_gqa=self.grouped)
        return self.leave(context.reshape(n_rows, -1))

    def read_source(
        self, x: Rows, sources: "Sources", block: int
    ) -> tuple[Rows, Float[Tensor, "sources heads width d_head"]]:
        """What the newest tokens read from their sources, and what they asked."""
        source, entered = sources.memory[block], self.enter(x)
        query = entered.view(len(source.key), -1, self.n_heads, self.d_head).transpose(1, 2)
        if why_not(source.key) is None:
            by_row = entered.view(len(x), self.n_heads, 1, self.d_head)
            places = sources.of_row[:, None].expand(-1, sources.n_tokens)
            context = one_token(by_row, source.key, source.value, places, sources.lengths)
        else:
            read = F.scaled_dot_product_attention(
                query, source.key, source.value, sources.padding, enable_gqa=self.grouped
            )
            context = read.transpose(1, 2)
        return self.leave(context.reshape(len(x), -1)), query

    @property
    def grouped(self) -> bool:
        """Whether a head of keys serves several of queries."""
        return self.n_heads != self.n_key_heads


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """The path round a sublayer, as its tensors."""

    weight: Tensor
    bias: Tensor
    eps: float
    before: bool

    @classmethod
    def of(cls, residual: Residual) -> "Around":
        """A path's tensors."""
        return cls(residual.norm.weight, residual.norm.bias, residual.norm.eps, residual.before)

    def enter(self, x: Rows) -> Rows:
        """What the sublayer reads."""
        return self.norm(x) if self.before else x

    def leave(self, x: Rows, output: Rows) -> Rows:
        """What went in and what the sublayer made of it, together."""
        x = x + output
        return x if self.before else self.norm(x)

    def norm(self, x: Rows) -> Rows:
        """A mean of 0 and a variance of 1, then gain and bias."""
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


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
        return cls(memory, of_row, lengths.long()[of_row], padding)

    @property
    def n_tokens(self) -> int:
        """How many tokens the longest source has."""
        return self.memory[0].n_tokens


@dataclass(frozen=True, slots=True, eq=False)
class Bare:
    """What takes a step of one token without modules and patterns: a decoder's tensors, and what its rows read."""

    decoder: BareDecoder
    sources: Sources

    @classmethod
    def of(cls, decoder: nn.Module, sources: Sources) -> "Bare | None":
        """What takes steps for a decoder; None where only the decoder itself can."""
        bare = BareDecoder.of(decoder)
        return None if bare is None else cls(bare, sources)

    def reads(self, sources: Int[Tensor, " rows"]) -> bool:
        """Whether rows that read these sources are what it has."""
        return torch.equal(sources, self.sources.of_row)


def known(module: nn.Module) -> bool:
    """Whether this file does all that a module of the decoder does, with parameters that are all there."""
    if type(module) not in KNOWN or hooked(module):
        return False
    if any(type(parameter) is not nn.Parameter for parameter in module._parameters.values()):
        return False  # there is none, or it is divided over processes
    if isinstance(module, MultiHeadAttention):
        return products(module.score) and weighted(module.normalise)
    return not isinstance(module, DecoderBlock) or module.cross_attention is not None


def products(score: Score) -> bool:
    """Whether scores are products divided by √d_head."""
    return isinstance(score, ScaledDot) and score.scale is None and score.softcap is None and score.bias is None


def weighted(normalise: Normaliser) -> bool:
    """Whether weights are the softmax of the scores."""
    return isinstance(normalise, Softmax) and normalise.temperature == 1 and normalise.sinks is None


def bare_steps(device: torch.device) -> bool:
    """Whether steps may be bare: nobody wants gradients, another backend, another precision or a program of them."""
    return just_numbers(device) and ASKED.name in (None, "fused")
