"""Which encoders and decoders the CPU kernels can compute; PyTorch computes all others.

An encoder or decoder must have the modules, settings and widths that its config describes: no module may be replaced or
have a hook. Parameters must be float32 and not sharded over processes. A decoder must have cross-attention.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import cast

import torch
from torch import nn

from regard.attention.backends.choose import PREFERRED
from regard.attention.layers.multi_head import MultiHeadAttention
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot
from regard.kernels.library import c_function
from regard.transformer.block import Block, DecoderBlock, EncoderBlock
from regard.transformer.config import TransformerConfig
from regard.transformer.decoder import Decoder
from regard.transformer.encoder import Encoder
from regard.transformer.feed_forward import FeedForward

WIDTH_MULTIPLE = 16
"""d_head and d_ff must be multiples of 16, the number of floats in the widest processor register."""


def is_kernel_allowed(device: torch.device) -> bool:
    """Return whether CPU kernels were built and may run.

    They may not run with gradients, autocast or torch.compile, nor if another backend than "fused" is chosen.
    """
    if torch.is_grad_enabled() or torch.is_autocast_enabled(device.type) or torch.compiler.is_compiling():
        return False
    return PREFERRED.name in (None, "fused") and c_function("regard_decoding_step") is not None


def unsupported_reason(module: Encoder | Decoder) -> str | None:
    """Return why the CPU kernels cannot compute the blocks of an encoder or decoder; None if they can."""
    name, config = type(module).__name__.lower(), module.config
    if module.training:
        return f"the {name} is in training mode"
    standard = new_module(config, is_decoder=isinstance(module, Decoder))
    parts = list(module.modules())
    has_standard_types = list(map(type, parts)) == list(map(type, standard.modules()))
    if not has_standard_types or not all(map(is_standard, parts)):
        return f"a module or a parameter of the {name} is not the standard one, or has a hook"
    for parameter in (*module.parameters(), *module.buffers()):
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32 or not parameter.is_contiguous():
            return "parameters must be contiguous float32 tensors on a CPU"
    if config.d_head % WIDTH_MULTIPLE or config.d_ff % WIDTH_MULTIPLE:
        return f"d_head and d_ff must be multiples of {WIDTH_MULTIPLE}"
    if shapes(module) != shapes(standard) or settings(module) != settings(standard) or not has_equal_positions(module):
        return "all blocks and layers must have the widths and settings of one config"
    return None


@lru_cache(4)
def new_module(config: TransformerConfig, *, is_decoder: bool) -> Encoder | Decoder:
    """Return a new encoder or decoder whose parameters have shapes, but no memory."""
    with torch.device("meta"):
        return Decoder(config) if is_decoder else Encoder(config)


def is_standard(part: nn.Module) -> bool:
    """Return whether a part of an encoder or decoder has no hook, plain parameters, and attention of the usual kind."""
    if part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part):
        return False
    if any(type(parameter) is not nn.Parameter for parameter in part._parameters.values()):
        return False  # the module has no bias, or a parameter is sharded over processes
    if isinstance(part, MultiHeadAttention):
        return part.score == ScaledDot() and part.normalise == Softmax()
    if isinstance(part, DecoderBlock):
        return part.cross_attention is not None and part.cross_attention.positions is None
    return True


def shapes(module: Encoder | Decoder) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in module.state_dict().items()}


def settings(module: Encoder | Decoder) -> list[object]:
    """Return the settings of all blocks and layers that the kernels read from the config of an encoder or decoder."""
    found: list[object] = []
    for part in module.modules():
        if isinstance(part, Block):
            found.append(part.norm_first)
        elif isinstance(part, MultiHeadAttention):
            found.append((part.n_heads, part.n_key_heads, part.d_head))
        elif isinstance(part, FeedForward):
            found.append(part.activation)
    return found


def has_equal_positions(module: Encoder | Decoder) -> bool:
    """Return whether the self-attention of all blocks has the same rotary positions, or none."""
    blocks = list(cast("Iterable[DecoderBlock | EncoderBlock]", module.blocks))
    return all(block.self_attention.positions == blocks[0].self_attention.positions for block in blocks)
