"""Conversion of torch.nn.MultiheadAttention to regard's MultiHeadAttention, and what to write for its arguments."""

import torch
from torch import nn

from regard.attention.pytorch_arguments import explain_arguments_of
from regard.attention.representation import type_name

FOR_THREE_TENSORS = "for (x, x, x) write (x), for (x, memory, memory) write (x, memory)"

explain_constructor_arguments = explain_arguments_of(
    "nn.MultiheadAttention",
    "after d_model and n_heads write names, such as dropout=0.1",
    {
        "embed_dim": "for embed_dim write d_model",
        "num_heads": "for num_heads write n_heads",
        "batch_first": "leave out batch_first, because the batch is always the first axis",
        **dict.fromkeys(("kdim", "vdim"), "leave out kdim and vdim, because all tokens have the width d_model"),
        **dict.fromkeys(("device", "dtype"), "for device and dtype write .to(…) after the call"),
    },
)
explain_call_arguments = explain_arguments_of(
    "nn.MultiheadAttention",
    FOR_THREE_TENSORS,
    {
        **dict.fromkeys(("query", "key", "value"), FOR_THREE_TENSORS),
        "is_causal": "for is_causal=True write mask=Causal()",
        "attn_mask": "for a boolean attn_mask write mask=~attn_mask, for numbers score=ScaledDot(bias=attn_mask)",
        "key_padding_mask": "for key_padding_mask write mask=~key_padding_mask[:, None, None] or mask=Padding(lengths)",
        "need_weights": "leave out need_weights, because the result always has the weights as .pattern",
        "average_attn_weights": "leave out average_attn_weights, because .pattern has the weights of every head",
    },
)


def check_torch_module(module: object) -> None:
    """Raise an error unless `module` is an nn.MultiheadAttention with only options that MultiHeadAttention has too."""
    if not isinstance(module, nn.MultiheadAttention):
        raise TypeError(f"from_torch takes an nn.MultiheadAttention; got {type_name(module)}.")
    unsupported = {
        "kdim or vdim other than embed_dim": not module._qkv_same_embed_dim,
        "add_bias_kv": module.bias_k is not None,
        "add_zero_attn": module.add_zero_attn,
    }
    if any(unsupported.values()):
        options = " and ".join(name for name, is_used in unsupported.items() if is_used)
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
    """Copy the parameters of `module`, and whether each is trained, from in_proj (query, key, value) and out_proj."""
    projections = to_query, to_key, to_value
    for projection, weight in zip(projections, module.in_proj_weight.chunk(3), strict=True):
        projection.weight.copy_(weight).requires_grad_(module.in_proj_weight.requires_grad)
    if module.in_proj_bias is not None:
        for projection, bias in zip(projections, module.in_proj_bias.chunk(3), strict=True):
            projection.bias.copy_(bias).requires_grad_(module.in_proj_bias.requires_grad)
    for parameter, torch_parameter in zip(to_output.parameters(), module.out_proj.parameters(), strict=True):
        parameter.copy_(torch_parameter).requires_grad_(torch_parameter.requires_grad)
