"""Which decoders the kernel of the decoding step can express: Vaswani et al.'s, made of regard's own modules.

A module that was replaced or has a hook, another score or normaliser, parameters that are spread over processes, widths
that do not fit the processor's registers: then the decoder's modules take the step.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import nn

from regard.attention.backends.choose import PREFERRED
from regard.attention.layers.multi_head import MultiHeadAttention
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.positions.learned import LearnedPositions
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.transformer.block import DecoderBlock
from regard.transformer.dropout import Dropout, Residual
from regard.transformer.embedding import Embedding
from regard.transformer.feed_forward import ACTIVATIONS, FeedForward

WIDTH_MULTIPLE = 16
"""Vectors have a multiple of this many numbers: the widest register of a processor holds 16."""

MODULES = (
    DecoderBlock, MultiHeadAttention, FeedForward, Residual, Embedding, LearnedPositions, Dropout,
    nn.Embedding, nn.LayerNorm, nn.Linear, nn.ModuleList,
)  # fmt: skip
"""The modules whose arithmetic the kernel repeats."""


def only_numbers_wanted(device: torch.device) -> bool:
    """Return whether gradients, autocast, torch.compile and `use_backend` are all off, so that the kernel may run."""
    extra = torch.is_grad_enabled() or torch.is_autocast_enabled(device.type) or torch.compiler.is_compiling()
    return not extra and PREFERRED.name in (None, "fused")


def structure_reason(decoder: nn.Module) -> str | None:
    """Return why the kernel cannot express a decoder, or None if it can."""
    if decoder.training:
        return "the decoder is in training"
    if hooked(decoder) or not all(map(is_standard, list(decoder.modules())[1:])):
        return "a module or a parameter of the decoder is not the standard one, or has a hook"
    for parameter in decoder.parameters():
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32 or not parameter.is_contiguous():
            return "it reads contiguous float32 parameters on a CPU"
    blocks = list(cast("Iterable[DecoderBlock]", decoder.blocks))
    first = blocks[0]
    widths = first.self_attention.d_head, first.feed_forward.narrow.in_features
    if any(width % WIDTH_MULTIPLE for width in widths):
        return f"d_head and d_ff are multiples of {WIDTH_MULTIPLE}"
    last_norm = decoder.norm is None or cast("nn.LayerNorm", decoder.norm).normalized_shape == normalized_shape(first)
    if not (last_norm and fits(first) and all(shape(block) == shape(first) for block in blocks)):
        return "all blocks have the same shape, the paper's"
    return None


def hooked(module: nn.Module) -> bool:
    """Return whether a module has hooks or another `forward` than its class's."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def is_standard(module: nn.Module) -> bool:
    """Return whether the kernel repeats all that a module of the decoder does."""
    if type(module) not in MODULES or hooked(module):
        return False
    if any(type(parameter) is not nn.Parameter for parameter in module._parameters.values()):
        return False  # it is None, or spread over processes
    if isinstance(module, MultiHeadAttention):
        return plain_products(module.score) and plain_softmax(module.normalise)
    if isinstance(module, DecoderBlock):
        return module.cross_attention is not None and module.cross_attention.positions is None
    return True


def plain_products(score: Score) -> bool:
    """Return whether scores are dot products divided by √d_head."""
    return isinstance(score, ScaledDot) and score.scale is None and score.softcap is None and score.bias is None


def plain_softmax(normalise: Normaliser) -> bool:
    """Return whether weights are the softmax of the scores, without temperature or sinks."""
    return isinstance(normalise, Softmax) and normalise.temperature == 1 and normalise.sinks is None


def fits(block: DecoderBlock) -> bool:
    """Return whether the parts of a block have the widths that a config gives them, which the kernel relies on."""
    attention, feed_forward = block.self_attention, block.feed_forward
    d_model, d_key = attention.n_heads * attention.d_head, attention.n_key_heads * attention.d_head
    d_ff, gates = feed_forward.narrow.in_features, ACTIVATIONS[feed_forward.activation].gated
    square = d_model, d_model
    widths = [square, (d_key, d_model), (d_key, d_model), square, square, square, ((1 + gates) * d_ff, d_model)]
    heads, cross_heads = ((a.n_heads, a.n_key_heads, a.d_head) for a in attentions(block))
    return (
        heads == cross_heads
        and [tuple(layer.weight.shape) for layer in linear_layers(block)] == [*widths, (d_model, d_ff)]
        and all(norm.normalized_shape == normalized_shape(block) for norm in norms(block))
    )


def shape(block: DecoderBlock) -> tuple[Any, ...]:
    """Return what must be the same in all blocks of a decoder."""
    heads = [(attention.n_heads, attention.n_key_heads, attention.d_head) for attention in attentions(block)]
    widths = [layer.weight.shape for layer in linear_layers(block)] + [norm.weight.shape for norm in norms(block)]
    return block.norm_first, block.feed_forward.activation, block.self_attention.positions, heads, widths


def normalized_shape(block: DecoderBlock) -> tuple[int, ...]:
    """Return the shape of a vector between the block's parts."""
    return (block.self_attention.n_heads * block.self_attention.d_head,)


def attentions(block: DecoderBlock) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    """Return self-attention and cross-attention of a block that reads a source."""
    return block.self_attention, cast("MultiHeadAttention", block.cross_attention)


def linear_layers(block: DecoderBlock) -> tuple[nn.Linear, ...]:
    """Return the linear layers of a step, in the order of the kernel's struct."""
    own, cross = attentions(block)
    layers = own.to_query, own.to_key, own.to_value, own.to_output, cross.to_query, cross.to_output
    return *layers, block.feed_forward.widen, block.feed_forward.narrow


def norms(block: DecoderBlock) -> tuple[nn.LayerNorm, ...]:
    """Return the norms of a block, in the order of the kernel's struct."""
    return block.self_attention_norm, cast("nn.LayerNorm", block.cross_attention_norm), block.feed_forward_norm
