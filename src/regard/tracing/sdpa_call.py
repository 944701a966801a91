"""Converts a call of F.scaled_dot_product_attention to a `Call` of regard."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from regard.attention.call import Call
from regard.attention.masks import Causal, Keep, Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot
from regard.tracing.four_axes import four_axes


def sdpa_call(
    n_heads: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Call:
    """Convert the arguments of F.scaled_dot_product_attention, except for the dropout, to a `Call`.

    A boolean `attn_mask` is a mask, True = may attend; any other is added to the scores. If `is_causal`, query 0 is at
    the position of key 0.

    Args:
        n_heads: the number of heads, used if batch and heads share an axis; None = unknown.
    """
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
    query, key, value = (
        four_axes(part, part.shape[:-2] if enable_gqa else lead, n_heads) for part in (query, key, value)
    )
    return Call.of(query, key, value, ScaledDot(scale=scale, bias=bias), mask, Softmax())


def output_shape(
    query: Tensor, key: Tensor, value: Tensor, *args: Any, enable_gqa: bool = False, **kwargs: Any
) -> torch.Size:
    """Return the shape of the tensor that F.scaled_dot_product_attention returns for these arguments."""
    leads = [query.shape[:-2]] if enable_gqa else [part.shape[:-2] for part in (query, key, value)]
    lead = torch.broadcast_shapes(*leads)  # type: ignore[no-untyped-call]
    return torch.Size((*lead, query.shape[-2], value.shape[-1]))


CHANGED: Any = WeakTensorKeyDictionary()
"""The results of changed attention calls: for each context that such a call returned, the `Attended` of the call.

`AttentionInterceptor` then records the changed call, not the original one.
"""


def autocast(*tensors: Tensor) -> list[Tensor]:
    """Return the tensors in the data type to which autocast converts the arguments of attention, if autocast is on."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(tensors)
    return [tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors]
