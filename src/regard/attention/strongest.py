"""The largest weights of each row, in an order that equal weights do not leave open."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def strongest_first(
    weights: Float[Tensor, "*rows keys"], n: int
) -> tuple[Float[Tensor, "*rows n"], Int[Tensor, "*rows n"]]:
    """Return the n largest weights of each row and their keys, largest first; of equal weights, the lowest key first.

    `torch.topk` returns equal numbers in any order. So the bits of a float32, which are in the order of the numbers
    once those of negative numbers are inverted, are joined with the key to one integer, which no other key has.
    """
    if weights.dtype == torch.float64:
        ordered = weights.sort(dim=-1, descending=True, stable=True)
        return ordered.values[..., :n], ordered.indices[..., :n]
    bits = (weights + 0.0).view(torch.int32).long()  # + 0.0 makes 0.0 of -0.0
    in_order = bits ^ ((bits >> 63) & 0x7FFFFFFF)
    keys = (in_order * 2**32 - torch.arange(weights.shape[-1], device=weights.device)).topk(n, dim=-1).indices
    return weights.gather(-1, keys), keys
