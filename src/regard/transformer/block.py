"""The blocks of a Transformer: attention and feed-forward networks, each with a residual connection and a norm.

    post-norm    x ← norm(x + dropout(sublayer(x)))        Vaswani et al. 2017, sections 3.1 and 5.4
    pre-norm     x ← x + dropout(sublayer(norm(x)))        Xiong et al. 2020, section 3

The sublayers are self-attention, cross-attention (in a decoder that reads a source) and the feed-forward network.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.layers.key_value import KeyValue
from regard.attention.layers.multi_head import MultiHeadAttention, MultiHeadRead
from regard.attention.masks import Mask
from regard.attention.positions.rotary import Rotary
from regard.transformer.config import TransformerConfig
from regard.transformer.dropout import Residual
from regard.transformer.feed_forward import FeedForward


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockOutput:
    """The output of a block and of its attention.

    Attributes:
        output: the tokens' vectors, as the next block takes them.
        self_attention: how the tokens attended to each other.
        cross_attention: how the tokens attended to the source, or None if there is no source.
    """

    output: Float[Tensor, "batch tokens d_model"]
    self_attention: MultiHeadRead
    cross_attention: MultiHeadRead | None = None


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm_first = config.norm == "pre"
        self.self_attention = new_self_attention(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.self_attention_norm = nn.LayerNorm(config.d_model)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.residual = Residual(config.dropout)  # residual(x, y) = x + dropout(y)

    def forward(self, x: Float[Tensor, "batch tokens d_model"], *, mask: Mask | None = None) -> BlockOutput:
        """Return the tokens' vectors after this block.

        Args:
            mask: which tokens may be attended to; None = all.
        """
        if self.norm_first:
            attention = self.self_attention(self.self_attention_norm(x), mask=mask)
            x = self.residual(x, attention.output)
            x = self.residual(x, self.feed_forward(self.feed_forward_norm(x)))
        else:
            attention = self.self_attention(x, mask=mask)
            x = self.self_attention_norm(self.residual(x, attention.output))
            x = self.feed_forward_norm(self.residual(x, self.feed_forward(x)))
        return BlockOutput(output=x, self_attention=attention)

    def extra_repr(self) -> str:
        """Return where the block normalises."""
        return norm_repr(self.norm_first)


class DecoderBlock(nn.Module):
    """Self-attention, then cross-attention to the source if there is one, then a feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm_first, reads_source = config.norm == "pre", config.n_source_tokens > 0
        self.self_attention = new_self_attention(config)
        self.cross_attention = new_attention(config, positions=None) if reads_source else None
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.self_attention_norm = nn.LayerNorm(config.d_model)
        self.cross_attention_norm = nn.LayerNorm(config.d_model) if reads_source else nn.Identity()
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.residual = Residual(config.dropout)  # residual(x, y) = x + dropout(y)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        memory: KeyValue | None = None,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        cache: KeyValue | None = None,
    ) -> BlockOutput:
        """Return the tokens' vectors after this block.

        Args:
            memory: the source as keys and values, from this block's `prepare`. It may have fewer rows than x: then
                each source serves the same number of consecutive rows of x.
            mask: which tokens of the target may be attended to, the tokens of the cache included; None = all.
            memory_mask: which tokens of the source may be attended to; None = all.
            cache: keys and values of the earlier tokens, `self_attention.cache` of an earlier `BlockOutput`.

        Raises:
            ValueError: a block with cross-attention got no memory, or one without cross-attention got a memory.
        """
        if (memory is None) != (self.cross_attention is None):
            raise ValueError(
                "this block was built with cross-attention to a source and got no memory; give the source's keys and "
                "values, block.prepare(source)."
                if memory is None
                else "this block was built without a source (n_source_tokens=0) and got a memory; leave the memory out."
            )
        cross = None
        if self.norm_first:
            attention = self.self_attention(self.self_attention_norm(x), mask=mask, cache=cache)
            x = self.residual(x, attention.output)
            if self.cross_attention is not None:
                cross = self.cross_attention(
                    rows_by_source(self.cross_attention_norm(x), memory), memory, mask=memory_mask
                )
                x = self.residual(x, cross.output.view_as(x))
            x = self.residual(x, self.feed_forward(self.feed_forward_norm(x)))
        else:
            attention = self.self_attention(x, mask=mask, cache=cache)
            x = self.self_attention_norm(self.residual(x, attention.output))
            if self.cross_attention is not None:
                cross = self.cross_attention(rows_by_source(x, memory), memory, mask=memory_mask)
                x = self.cross_attention_norm(self.residual(x, cross.output.view_as(x)))
            x = self.feed_forward_norm(self.residual(x, self.feed_forward(x)))
        return BlockOutput(output=x, self_attention=attention, cross_attention=cross)

    def prepare(self, memory: Float[Tensor, "batch source d_model"]) -> KeyValue | None:
        """Return the source as keys and values of the cross-attention, or None if the block has no cross-attention."""
        return None if self.cross_attention is None else self.cross_attention.prepare(memory)

    def extra_repr(self) -> str:
        """Return where the block normalises."""
        return norm_repr(self.norm_first)


def rows_by_source(
    x: Float[Tensor, "batch tokens d_model"], memory: KeyValue | None
) -> Float[Tensor, "sources queries d_model"]:
    """Join the tokens of rows that read the same source into one row, so that the source is not copied for each."""
    return x if memory is None else x.reshape(memory.key.shape[0], -1, x.shape[2])


def norm_repr(norm_first: bool) -> str:
    """Return the `norm` of a block's config as its repr shows it."""
    return f"norm={'pre' if norm_first else 'post'!r}"


def new_self_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Return attention of a text's tokens to each other, with rotary positions if the config has them."""
    return new_attention(config, positions=Rotary() if config.positions == "rotary" else None)


def new_attention(config: TransformerConfig, positions: Rotary | None) -> MultiHeadAttention:
    """Return attention with the config's sizes.

    Queries, keys and values start smaller by √2 than the projections of a `MultiHeadAttention` alone, as if one matrix
    of Glorot's size made all three (torch, fairseq); post-norm trains markedly faster so.
    """
    attention = MultiHeadAttention(
        config.d_model,
        config.n_heads,
        n_key_heads=config.n_key_heads,
        positions=positions,
        dropout=config.attention_dropout,
    )
    for projection in (attention.to_query, attention.to_key, attention.to_value):
        nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)
    return attention
