"""The largest attention weights of each query, in an order that is deterministic even if weights are equal."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.gradients import in_torch_func


def strongest_first(
    weights: Float[Tensor, "*rows keys"], n: int
) -> tuple[Float[Tensor, "*rows n"], Int[Tensor, "*rows n"]]:
    """Return the n largest weights of each row and their keys, largest first; of equal weights, the lowest key first.

    `torch.topk` returns equal numbers in any order. So the bits of each float32 weight and its key index are combined
    into one integer, and `topk` is applied to these integers. For float64, and under `torch.vmap`, which cannot
    reinterpret bits before torch 2.12, whole rows are sorted by a stable sort.
    """
    if weights.dtype == torch.float64 or in_torch_func():
        ordered = weights.sort(dim=-1, descending=True, stable=True)
        return ordered.values[..., :n], ordered.indices[..., :n]
    bits = (weights + 0.0).view(torch.int32).long()  # + 0.0 turns -0.0 into 0.0: they are equal, but have other bits
    # the bits of negative numbers sort backwards, so they are inverted (bits >> 63 is -1 for negative numbers, else 0)
    in_order = bits ^ ((bits >> 63) & 0x7FFFFFFF)
    # the high 32 bits are the weight, and the low bits the negated key index, so that the lowest key comes first
    keys = (in_order * 2**32 - torch.arange(weights.shape[-1], device=weights.device)).topk(n, dim=-1).indices
    return weights.gather(-1, keys), keys
