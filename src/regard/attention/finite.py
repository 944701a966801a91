"""Tests for NaN and infinity, so that neither masked keys nor overflow of float32 put NaN into the results.

A kernel multiplies the value of a masked key by weight 0, and 0 · NaN = NaN. Scores that overflow float32 give NaN too.
A context that contains NaN is therefore computed again by the backend `tiled`, which leaves masked values out. If all
input is finite, so that only overflow can be the cause, it is computed in float64.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Summary
from regard.attention.call import Call
from regard.attention.gradients import are_plain
from regard.attention.stages import tensors_in


def total(tensor: Float[Tensor, "*shape"]) -> float:
    """Return the sum of all elements of a tensor on a CPU, which is NaN or infinite if an element is.

    Return 0 on other devices, where reading the sum would wait for all queued kernels, and under torch.compile and
    torch.func.
    """
    return float(tensor.detach().sum()) if tensor.is_cpu and are_plain((tensor,)) else 0.0


def may_hold_nan(tensor: Float[Tensor, "*shape"]) -> bool:
    """Return whether a tensor contains NaN, or infinities of both signs; always False if it is not on a CPU."""
    return math.isnan(total(tensor))


def may_be_infinite(tensor: Float[Tensor, "*shape"]) -> bool:
    """Return whether a tensor contains NaN or infinity, or its sum overflows; always False if it is not on a CPU."""
    return not math.isfinite(total(tensor))


def may_hold_nan_statistics(summary: Summary) -> bool:
    """Return whether a statistic on a CPU contains NaN; on a GPU it is not looked at, and the answer is False."""
    return any(may_hold_nan(numbers) for numbers in tensors_in(summary) if numbers.is_floating_point())


def without_overflow(call: Call) -> Call:
    """Return the call with query, key and value in float64, or the call itself if one of them is not finite."""
    vectors = call.query, call.key, call.value
    if call.dtype == torch.float64 or not all(bool(tensor.isfinite().all()) for tensor in vectors):
        return call
    query, key, value = (tensor.double() for tensor in vectors)
    return Call.of(query, key, value, call.score, call.mask, call.normalise)
