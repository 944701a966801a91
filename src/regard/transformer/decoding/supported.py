"""Check whether the CPU kernel can compute the decoding steps of a decoder; if not, `Decoder.forward` computes them.

The decoder must have cross-attention, its weights must be the softmax of scaled dot products, its parameters must be
float32 and in one process, and d_head and d_ff must be multiples of `WIDTH_MULTIPLE`. No module of the decoder may be
replaced or have a hook.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import nn

from regard.attention.backends.choose import PREFERRED
from regard.attention.layers.multi_head import MultiHeadAttention
from regard.attention.normalise.softmax import Softmax
from regard.attention.positions.learned import LearnedPositions
from regard.attention.scores.dot import ScaledDot
from regard.transformer.block import DecoderBlock
from regard.transformer.dropout import Dropout, Residual
from regard.transformer.embedding import Embedding
from regard.transformer.feed_forward import ACTIVATIONS, FeedForward

WIDTH_MULTIPLE = 16
"""d_head and d_ff must be multiples of 16, the number of floats in the widest processor register."""

MODULES = (
    DecoderBlock, MultiHeadAttention, FeedForward, Residual, Embedding, LearnedPositions, Dropout,
    nn.Embedding, nn.LayerNorm, nn.Linear, nn.ModuleList,
)  # fmt: skip
"""The module classes that the CPU kernel supports."""


def kernel_allowed(device: torch.device) -> bool:
    """Return whether the CPU kernel may compute a decoding step at present.

    It may not while autograd, autocast on `device` or torch.compile is active, or while `use_backend` selects another
    backend than "fused".
    """
    needs_modules = torch.is_grad_enabled() or torch.is_autocast_enabled(device.type) or torch.compiler.is_compiling()
    return not needs_modules and PREFERRED.name in (None, "fused")


def structure_reason(decoder: nn.Module) -> str | None:
    """Return the reason why the CPU kernel cannot compute the modules of a decoder; None if it can."""
    if decoder.training:
        return "the decoder is in training mode"
    if hooked(decoder) or not all(map(is_standard, list(decoder.modules())[1:])):
        return "a module or a parameter of the decoder is not the standard one, or has a hook"
    for parameter in decoder.parameters():
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32 or not parameter.is_contiguous():
            return "parameters must be contiguous float32 tensors on a CPU"
    blocks = list(cast("Iterable[DecoderBlock]", decoder.blocks))
    first = blocks[0]
    widths = first.self_attention.d_head, first.feed_forward.narrow.in_features
    if any(width % WIDTH_MULTIPLE for width in widths):
        return f"d_head and d_ff must be multiples of {WIDTH_MULTIPLE}"
    last_norm = decoder.norm is None or cast("nn.LayerNorm", decoder.norm).normalized_shape == normalized_shape(first)
    if not (last_norm and has_config_widths(first) and all(structure(block) == structure(first) for block in blocks)):
        return "all blocks must have the layer widths of one config"
    return None


def hooked(module: nn.Module) -> bool:
    """Return whether a module has forward hooks, or a method `forward` that replaces the one of its class."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def is_standard(module: nn.Module) -> bool:
    """Return whether the CPU kernel can compute a module: its class and settings are supported, and it has no hooks."""
    if type(module) not in MODULES or hooked(module):
        return False
    if any(type(parameter) is not nn.Parameter for parameter in module._parameters.values()):
        return False  # no bias, or a parameter that is sharded over processes
    if isinstance(module, MultiHeadAttention):
        return module.score == ScaledDot() and module.normalise == Softmax()
    if isinstance(module, DecoderBlock):
        return module.cross_attention is not None and module.cross_attention.positions is None
    return True


def has_config_widths(block: DecoderBlock) -> bool:
    """Return False if a layer of a block was replaced by one whose width does not fit d_model, d_ff and n_heads."""
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


def structure(block: DecoderBlock) -> tuple[Any, ...]:
    """Return the settings and the layer widths of a block; the CPU kernel needs them to be equal in all blocks."""
    heads = [(attention.n_heads, attention.n_key_heads, attention.d_head) for attention in attentions(block)]
    widths = [layer.weight.shape for layer in linear_layers(block)] + [norm.weight.shape for norm in norms(block)]
    return block.norm_first, block.feed_forward.activation, block.self_attention.positions, heads, widths


def normalized_shape(block: DecoderBlock) -> tuple[int, ...]:
    return (block.self_attention.n_heads * block.self_attention.d_head,)


def attentions(block: DecoderBlock) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    return block.self_attention, cast("MultiHeadAttention", block.cross_attention)


def linear_layers(block: DecoderBlock) -> tuple[nn.Linear, ...]:
    """Return the linear layers that a decoding step computes, in the order of the C struct `Block`."""
    self_, cross = attentions(block)
    layers = self_.to_query, self_.to_key, self_.to_value, self_.to_output, cross.to_query, cross.to_output
    return *layers, block.feed_forward.widen, block.feed_forward.narrow


def norms(block: DecoderBlock) -> tuple[nn.LayerNorm, ...]:
    """Return the norms of a block, in the order of the C struct `Block`."""
    return block.self_attention_norm, cast("nn.LayerNorm", block.cross_attention_norm), block.feed_forward_norm
