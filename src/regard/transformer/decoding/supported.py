"""Which encoders and decoders the CPU kernels can compute; PyTorch computes all others.

Attention weights must be the softmax of scaled dot products. Parameters must be float32 and not sharded over processes.
A decoder must have cross-attention. No module may be replaced or have a hook.
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
from regard.transformer.block import DecoderBlock, EncoderBlock
from regard.transformer.dropout import Dropout, Residual
from regard.transformer.embedding import Embedding
from regard.transformer.feed_forward import ACTIVATIONS, FeedForward

WIDTH_MULTIPLE = 16
"""d_head and d_ff must be multiples of 16, the number of floats in the widest processor register."""

SUPPORTED_MODULES = (
    DecoderBlock, EncoderBlock, MultiHeadAttention, FeedForward, Residual, Embedding, LearnedPositions, Dropout,
    nn.Embedding, nn.LayerNorm, nn.Linear, nn.ModuleList,
)  # fmt: skip
"""The module classes that the CPU kernel supports."""


def is_kernel_allowed(device: torch.device) -> bool:
    """Return whether CPU kernels may run: no gradients, autocast or torch.compile; no backend but "fused" is chosen."""
    if torch.is_grad_enabled() or torch.is_autocast_enabled(device.type) or torch.compiler.is_compiling():
        return False
    return PREFERRED.name in (None, "fused")


def unsupported_reason(module: nn.Module) -> str | None:
    """Return why the CPU kernels cannot compute the blocks of an encoder or decoder; None if they can."""
    name = type(module).__name__.lower()
    if module.training:
        return f"the {name} is in training mode"
    if has_hook(module) or not all(map(is_standard, list(module.modules())[1:])):
        return f"a module or a parameter of the {name} is not the standard one, or has a hook"
    for parameter in (*module.parameters(), *module.buffers()):
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32 or not parameter.is_contiguous():
            return "parameters must be contiguous float32 tensors on a CPU"
    blocks = list(cast("Iterable[DecoderBlock | EncoderBlock]", module.blocks))
    first = blocks[0]
    widths = first.self_attention.d_head, first.feed_forward.narrow.in_features
    if any(width % WIDTH_MULTIPLE for width in widths):
        return f"d_head and d_ff must be multiples of {WIDTH_MULTIPLE}"
    shape, to_logits = normalized_shape(first), cast("nn.Linear | None", getattr(module, "to_logits", None))
    embedding_fits = cast("Embedding", module.embedding).by_token.weight.shape[1:] == shape
    norm_fits = module.norm is None or cast("nn.LayerNorm", module.norm).normalized_shape == shape
    to_logits_fits = to_logits is None or (to_logits.in_features,) == shape
    blocks_fit = has_config_widths(first) and all(structure(block) == structure(first) for block in blocks)
    if not (embedding_fits and norm_fits and to_logits_fits and blocks_fit):
        return "all blocks must have the layer widths of one config"
    return None


def has_hook(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def is_standard(module: nn.Module) -> bool:
    if type(module) not in SUPPORTED_MODULES or has_hook(module):
        return False
    if any(type(parameter) is not nn.Parameter for parameter in module._parameters.values()):
        return False  # the module has no bias, or a parameter is sharded over processes
    if isinstance(module, MultiHeadAttention):
        return module.score == ScaledDot() and module.normalise == Softmax()
    if isinstance(module, DecoderBlock):
        return module.cross_attention is not None and module.cross_attention.positions is None
    return True


def has_config_widths(block: DecoderBlock | EncoderBlock) -> bool:
    """Return whether the widths of a block's layers fit together; the user may have replaced a layer by another one."""
    attention, feed_forward = block.self_attention, block.feed_forward
    d_model, d_key = attention.n_heads * attention.d_head, attention.n_key_heads * attention.d_head
    d_ff = feed_forward.narrow.in_features
    d_widened = 2 * d_ff if ACTIVATIONS[feed_forward.activation].gated else d_ff
    square, to_key_or_value = (d_model, d_model), (d_key, d_model)
    shapes = [square, to_key_or_value, to_key_or_value, square]  # self-attention: query, key, value, output
    if isinstance(block, DecoderBlock):
        shapes += [square, square]  # cross-attention: query, output
    shapes += [(d_widened, d_model), (d_model, d_ff)]
    heads = {(layer.n_heads, layer.n_key_heads, layer.d_head) for layer in attentions(block)}
    return (
        len(heads) == 1
        and [tuple(layer.weight.shape) for layer in linear_layers(block)] == shapes
        and all(norm.normalized_shape == normalized_shape(block) for norm in norms(block))
    )


def structure(block: DecoderBlock | EncoderBlock) -> tuple[Any, ...]:
    """Return the settings and the layer widths of a block; the CPU kernel needs them to be equal in all blocks."""
    heads = [(attention.n_heads, attention.n_key_heads, attention.d_head) for attention in attentions(block)]
    widths = [layer.weight.shape for layer in linear_layers(block)] + [norm.weight.shape for norm in norms(block)]
    return block.norm_first, block.feed_forward.activation, block.self_attention.positions, heads, widths


def normalized_shape(block: DecoderBlock | EncoderBlock) -> tuple[int, ...]:
    """Return the `normalized_shape` that the LayerNorms of a block must have: (d_model,)."""
    return (block.self_attention.n_heads * block.self_attention.d_head,)


def attentions(block: DecoderBlock | EncoderBlock) -> tuple[MultiHeadAttention, ...]:
    if isinstance(block, EncoderBlock):
        return (block.self_attention,)
    return block.self_attention, cast("MultiHeadAttention", block.cross_attention)


def linear_layers(block: DecoderBlock | EncoderBlock) -> tuple[nn.Linear, ...]:
    """Return the linear layers in the C struct `Block`: all but the key and value layers of cross-attention."""
    self_attention, *cross = attentions(block)
    layers = [getattr(self_attention, name) for name in ("to_query", "to_key", "to_value", "to_output")]
    layers += [layer for cross_attention in cross for layer in (cross_attention.to_query, cross_attention.to_output)]
    return *layers, block.feed_forward.widen, block.feed_forward.narrow


def norms(block: DecoderBlock | EncoderBlock) -> tuple[nn.LayerNorm, ...]:
    """Return the norms of a block, in the order of the C struct `Block`."""
    if isinstance(block, EncoderBlock):
        return block.self_attention_norm, block.feed_forward_norm
    return block.self_attention_norm, cast("nn.LayerNorm", block.cross_attention_norm), block.feed_forward_norm
