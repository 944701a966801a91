"""Converts a call of F.scaled_dot_product_attention to a `Call` of regard."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from regard.attention.call import Call
from regard.attention.masks import Causal, Keep, Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot
from regard.tracing.watching.four_axes import four_axes
from regard.tracing.watching.running_modules import HeadCounts

CHANGED: Any = WeakTensorKeyDictionary()
"""The `Attended` of each attention call that `regard.changed` changed, by the context tensor of the call."""


def sdpa_call(
    heads: HeadCounts,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Call, float]:
    """Convert the arguments of F.scaled_dot_product_attention to a `Call` and the dropout probability.

    A boolean `attn_mask` is a mask, True = may attend; a floating-point `attn_mask` is added to the scores. If
    `is_causal`, query 0 is at the position of key 0.

    `heads`, the numbers of heads of the calling module, tell how to split an axis that joins batch and heads. They also
    show a special form of `query`: for one query token, grouped queries and a mask, transformers passes
    [batch key_heads group width] in place of [batch query_heads 1 width], and a mask [batch key_heads group keys].
    """
    n_heads = heads.query_heads
    has_key_heads = query.ndim == key.ndim == 4 and key.shape[1] == heads.key_heads
    if has_key_heads and query.shape[1:3] == (heads.key_heads, heads.group):
        query, enable_gqa = query.reshape(query.shape[0], -1, 1, query.shape[-1]), True
        if attn_mask is not None and attn_mask.shape[1] > 1:
            attn_mask = attn_mask.reshape(attn_mask.shape[0], -1, 1, attn_mask.shape[-1])
    lead = output_shape(query, key, value, enable_gqa=enable_gqa)[:-2]
    mask: Mask | None = Causal(offset=0) if is_causal else None
    bias = None
    if attn_mask is not None:
        attn_mask = four_axes(attn_mask, lead, n_heads)
        if attn_mask.dtype == torch.bool:
            mask = Keep(attn_mask) if mask is None else mask & Keep(attn_mask)
        else:
            bias = attn_mask
    query, key, value = autocast(query.expand(*lead, -1, -1), key, value)
    # with grouped queries, the key and the value have fewer heads than the output
    query, key, value = (
        four_axes(part, part.shape[:-2] if enable_gqa else lead, n_heads) for part in (query, key, value)
    )
    return Call.of(query, key, value, ScaledDot(scale=scale, bias=bias), mask, Softmax()), dropout_p


def output_shape(
    query: Tensor, key: Tensor, value: Tensor, *args: Any, enable_gqa: bool = False, **kwargs: Any
) -> torch.Size:
    """Return the shape of the tensor that F.scaled_dot_product_attention returns for these arguments."""
    leads = [query.shape[:-2]] if enable_gqa else [part.shape[:-2] for part in (query, key, value)]
    lead = torch.broadcast_shapes(*leads)  # type: ignore[no-untyped-call]
    return torch.Size((*lead, query.shape[-2], value.shape[-1]))


def autocast(*tensors: Tensor) -> list[Tensor]:
    """Return the tensors; if autocast is on, convert them to its data type, as PyTorch does for attention."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(tensors)
    return [tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors]
