"""Conversion of torch.nn.MultiheadAttention to regard's MultiHeadAttention."""

import torch
from torch import nn

from regard.attention.representation import type_name


def check_torch_module(module: object) -> None:
    """Raise an error unless `module` is an nn.MultiheadAttention with only options that MultiHeadAttention has too."""
    if not isinstance(module, nn.MultiheadAttention):
        raise TypeError(f"from_torch takes an nn.MultiheadAttention; got {type_name(module)}.")
    unsupported = {
        "kdim or vdim other than embed_dim": not module._qkv_same_embed_dim,
        "bias=False": module.in_proj_bias is None,
        "add_bias_kv": module.bias_k is not None,
        "add_zero_attn": module.add_zero_attn,
    }
    if any(unsupported.values()):
        options = " and ".join(name for name, present in unsupported.items() if present)
        raise ValueError(f"this nn.MultiheadAttention has {options}, which MultiHeadAttention does not support.")
    if not module.batch_first:
        raise ValueError(
            "this nn.MultiheadAttention takes [tokens batch width] (batch_first=False) and MultiHeadAttention "
            "[batch tokens width]; set module.batch_first = True, and transpose the inputs of the new layer."
        )


@torch.no_grad()
def copy_projections(
    module: nn.MultiheadAttention, to_query: nn.Linear, to_key: nn.Linear, to_value: nn.Linear, to_output: nn.Linear
) -> None:
    """Copy the parameters of `module`, whose in_proj_weight holds the projections of queries, keys and values."""
    weights, biases = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    for projection, weight, bias in zip((to_query, to_key, to_value), weights, biases, strict=True):
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)
    to_output.load_state_dict(module.out_proj.state_dict())
