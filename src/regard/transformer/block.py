"""The blocks that a Transformer is stacked of: attention and feed-forward networks, each with a path round it.

post-norm    x ← norm(x + dropout(sublayer(x)))        Vaswani et al. 2017, sections 3.1 and 5.4
pre-norm     x ← x + dropout(sublayer(norm(x)))        Xiong et al. 2020, section 3
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.layers.key_value import KeyValue
from regard.attention.layers.multi_head import MultiHeadAttention, MultiHeadRead
from regard.attention.masks import Mask
from regard.attention.positions.rotary import Rotary
from regard.transformer.config import TransformerConfig
from regard.transformer.dropout import Dropout
from regard.transformer.feed_forward import FeedForward


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockRead:
    """What a block made of its tokens, and what it looked at.

    Attributes:
        output: the tokens' vectors, as the next block takes them.
        own: how the tokens looked at each other.
        cross: how they looked at the source; None where there is none.
    """

    output: Float[Tensor, "batch tokens d_model"]
    own: MultiHeadRead
    cross: MultiHeadRead | None = None


class Residual(nn.Module):
    """The path round a sublayer: what goes in is added to what comes out, and one of the two is normalised."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm, self.before = nn.LayerNorm(config.d_model), config.norm == "pre"
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens d_model"]:
        """What the sublayer reads."""
        return self.norm(x) if self.before else x

    def leave(
        self, x: Float[Tensor, "batch tokens d_model"], output: Float[Tensor, "batch tokens d_model"]
    ) -> Float[Tensor, "batch tokens d_model"]:
        """What went in and what the sublayer made of it, together."""
        x = self.dropout(output, onto=x)
        return x if self.before else self.norm(x)

    def extra_repr(self) -> str:
        """Where it normalises."""
        return f"norm={'pre' if self.before else 'post'!r}"


class EncoderBlock(nn.Module):
    """Tokens look at each other, then each is thought about alone."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.own_attention, self.around_own_attention = own_attention(config), Residual(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.around_feed_forward = Residual(config)

    def forward(self, x: Float[Tensor, "batch tokens d_model"], *, mask: Mask | None = None) -> BlockRead:
        """The tokens' vectors after this block.

        Args:
            mask: which tokens may be looked at; None = all.
        """
        own = self.own_attention(self.around_own_attention.enter(x), mask=mask)
        x = self.around_own_attention.leave(x, own.output)
        x = self.around_feed_forward.leave(x, self.feed_forward(self.around_feed_forward.enter(x)))
        return BlockRead(output=x, own=own)


class DecoderBlock(nn.Module):
    """Tokens look at each other, then at the source where there is one, then each is thought about alone."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.own_attention, self.around_own_attention = own_attention(config), Residual(config)
        crosses = config.n_source_tokens > 0
        self.cross_attention = attention(config, positions=None) if crosses else None
        self.around_cross_attention = Residual(config) if crosses else None
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.around_feed_forward = Residual(config)

    def prepare(self, memory: Float[Tensor, "batch source d_model"]) -> KeyValue | None:
        """The source as keys and values of this block's cross-attention; None if it has none."""
        return None if self.cross_attention is None else self.cross_attention.prepare(memory)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        memory: KeyValue | None = None,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        cache: KeyValue | None = None,
    ) -> BlockRead:
        """The tokens' vectors after this block.

        Args:
            memory: the source as this block's `prepare` gave it; with fewer rows than x where several, side by side,
                share each.
            mask: which tokens of the text may be looked at, those of the cache included; None = all.
            memory_mask: which tokens of the source may be looked at; None = all.
            cache: the text's earlier tokens, as `own.cache` of an earlier read.
        """
        own = self.own_attention(self.around_own_attention.enter(x), mask=mask, cache=cache)
        x = self.around_own_attention.leave(x, own.output)
        cross = None
        if self.cross_attention is not None and self.around_cross_attention is not None:
            asking = by_source(self.around_cross_attention.enter(x), memory)
            cross = self.cross_attention(asking, memory, mask=memory_mask)
            x = self.around_cross_attention.leave(x, cross.output.view_as(x))
        x = self.around_feed_forward.leave(x, self.feed_forward(self.around_feed_forward.enter(x)))
        return BlockRead(output=x, own=own, cross=cross)


def by_source(
    x: Float[Tensor, "batch tokens d_model"], memory: KeyValue | None
) -> Float[Tensor, "sources queries d_model"]:
    """The tokens of all rows that read the same source, in one row."""
    return x if memory is None else x.reshape(len(memory.key), -1, x.shape[-1])


def own_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Attention of a text's tokens to each other."""
    return attention(config, positions=Rotary() if config.positions == "rotary" else None)


def attention(config: TransformerConfig, positions: Rotary | None) -> MultiHeadAttention:
    """Attention of the config's sizes.

    Queries, keys and values start smaller by √2 than the projections of a `MultiHeadAttention` alone, as where one
    matrix of Glorot's size makes all three (torch, fairseq); post-norm trains markedly faster so.
    """
    made = MultiHeadAttention(
        config.d_model,
        config.n_heads,
        n_key_heads=config.n_key_heads,
        positions=positions,
        dropout=config.attention_dropout,
    )
    for projection in (made.to_query, made.to_key, made.to_value):
        nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)
    return made
