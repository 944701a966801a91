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

Hidden = Float[Tensor, "batch tokens d_model"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockOutput:
    output: Hidden
    self_attention: MultiHeadRead
    cross_attention: MultiHeadRead | None = None


class Block(nn.Module):
    """Base class of encoder and decoder blocks: it applies a norm before each sublayer or after each residual sum."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm_first = config.norm == "pre"

    def norm_before(self, norm: nn.Module, x: Hidden) -> Hidden:
        """Return the input of a sublayer: norm(x) in a pre-norm block, x itself in a post-norm block."""
        return norm(x) if self.norm_first else x

    def norm_after(self, norm: nn.Module, x: Hidden) -> Hidden:
        """Return what follows a residual sum x: norm(x) in a post-norm block, x itself in a pre-norm block."""
        return x if self.norm_first else norm(x)

    def extra_repr(self) -> str:
        return "norm='pre'" if self.norm_first else "norm='post'"


class EncoderBlock(Block):
    """A block of the encoder: self-attention and a feed-forward network, each with a residual connection and a norm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.self_attention = new_self_attention(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.self_attention_norm = nn.LayerNorm(config.d_model)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.residual = Residual(config.dropout)

    def forward(self, x: Hidden, *, mask: Mask | None = None) -> BlockOutput:
        """Return the hidden states after this block, and the output of its self-attention.

        Args:
            x: the hidden states before this block.
            mask: the keys that each query may attend to; None = every token attends to every token.
        """
        attention = self.self_attention(self.norm_before(self.self_attention_norm, x), mask=mask)
        x = self.norm_after(self.self_attention_norm, self.residual(x, attention.output))
        y = self.feed_forward(self.norm_before(self.feed_forward_norm, x))
        return BlockOutput(
            output=self.norm_after(self.feed_forward_norm, self.residual(x, y)), self_attention=attention
        )


class DecoderBlock(Block):
    """A block of the decoder: self-attention, cross-attention and a feed-forward network.

    Each of the three has a residual connection and a norm. Without a source vocabulary (n_source_tokens=0), the block
    has no cross-attention.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        reads_source = config.n_source_tokens > 0
        self.self_attention = new_self_attention(config)
        self.cross_attention = new_attention(config, positions=None) if reads_source else None
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.self_attention_norm = nn.LayerNorm(config.d_model)
        self.cross_attention_norm = nn.LayerNorm(config.d_model) if reads_source else nn.Identity()
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.residual = Residual(config.dropout)

    def forward(
        self,
        x: Hidden,
        memory: KeyValue | None = None,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        cache: KeyValue | None = None,
    ) -> BlockOutput:
        """Return the hidden states after this block, and the outputs of its attention layers.

        Args:
            x: the hidden states before this block, one batch row for each target.
            memory: the keys and values of the source, from this block's `prepare`; None if the block has no
                cross-attention. If there are k times as many targets as sources, each source is read by k consecutive
                targets.
            mask: the target tokens that each query may attend to, cached tokens included; None = all.
            memory_mask: the source tokens that each query may attend to; None = all.
            cache: the self-attention keys and values of the tokens before x: `self_attention.cache` of the
                `BlockOutput` for those tokens. None = x begins at the first token.

        Raises:
            ValueError: the block has cross-attention and memory is None, or it has none and memory is given; or the
                number of targets is no multiple of the number of sources.
        """
        if (memory is None) != (self.cross_attention is None):
            raise ValueError(
                "this block was built with cross-attention to a source and got no memory; give the source's keys and "
                "values, block.prepare(source)."
                if memory is None
                else "this block was built without a source (n_source_tokens=0) and got a memory; leave the memory out."
            )
        attention = self.self_attention(self.norm_before(self.self_attention_norm, x), mask=mask, cache=cache)
        x = self.norm_after(self.self_attention_norm, self.residual(x, attention.output))
        cross = None
        if self.cross_attention is not None and memory is not None:
            normed = self.norm_before(self.cross_attention_norm, x)
            n_sources = memory.key.shape[0]
            if n_sources != x.shape[0] and (n_sources == 0 or x.shape[0] % n_sources):
                raise ValueError(
                    f"the targets have a batch of {x.shape[0]} and the sources a batch of {n_sources}; give one "
                    "target, or the same number of targets, for each source."
                )
            queries = normed.reshape(n_sources, -1, normed.shape[2])  # each source has the tokens of all its targets
            cross = self.cross_attention(queries, memory, mask=memory_mask)
            x = self.norm_after(self.cross_attention_norm, self.residual(x, cross.output.view_as(x)))
        y = self.feed_forward(self.norm_before(self.feed_forward_norm, x))
        x = self.norm_after(self.feed_forward_norm, self.residual(x, y))
        return BlockOutput(output=x, self_attention=attention, cross_attention=cross)

    def prepare(self, encoded: Float[Tensor, "batch source d_model"]) -> KeyValue | None:
        """Compute the cross-attention keys and values of each source token from its vector, the encoder's output.

        Returns:
            The argument `memory` of `forward`; None if the block has no cross-attention.
        """
        return None if self.cross_attention is None else self.cross_attention.prepare(encoded)


def new_self_attention(config: TransformerConfig) -> MultiHeadAttention:
    return new_attention(config, positions=Rotary() if config.positions == "rotary" else None)


def new_attention(config: TransformerConfig, positions: Rotary | None) -> MultiHeadAttention:
    """Return an attention layer whose query, key and value matrices have Glorot's initialisation with gain 1/√2.

    fairseq uses this gain too. Post-norm models train markedly faster with it than with gain 1, the default of
    `MultiHeadAttention`.
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
