"""Tests for NaN and infinity, so that neither masked keys nor overflow of float32 put NaN into the results.

A kernel multiplies the value of a masked key by weight 0, and 0 · NaN = NaN. Scores that overflow float32 give NaN too.
A context that contains NaN is therefore computed again by the backend `tiled`, which ignores masked values. If all
inputs are finite, only overflow can be the cause, and the context is computed again in float64.
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
    """Return the sum of all elements of a tensor; the sum is NaN or infinite if one of the elements is.

    Return 0 for tensors that are not on a CPU, because reading the sum would wait for the device, and under
    torch.compile and torch.func.
    """
    return float(tensor.detach().sum()) if tensor.is_cpu and are_plain((tensor,)) else 0.0


def may_hold_nan(tensor: Float[Tensor, "*shape"]) -> bool:
    """Return whether the sum of a tensor on a CPU is NaN: it contains NaN, or infinities of both signs.

    Always False on other devices, and under torch.compile and torch.func.
    """
    return math.isnan(total(tensor))


def may_be_infinite(tensor: Float[Tensor, "*shape"]) -> bool:
    """Return whether the sum of a tensor on a CPU is NaN or infinite.

    This is so if the tensor contains NaN or infinity, or if the sum overflows. Always False on other devices, and under
    torch.compile and torch.func.
    """
    return not math.isfinite(total(tensor))


def may_hold_nan_statistics(summary: Summary) -> bool:
    """Return whether a statistic in `summary` contains NaN; always False for statistics that are not on a CPU."""
    return any(may_hold_nan(numbers) for numbers in tensors_in(summary) if numbers.is_floating_point())


def without_overflow(call: Call) -> Call:
    """Return a copy of the call with query, key and value in float64, so that the scores do not overflow.

    Return the call itself if its tensors are float64 already, or if query, key or value contains NaN or infinity.
    """
    vectors = call.query, call.key, call.value
    if call.dtype == torch.float64 or not all(bool(tensor.isfinite().all()) for tensor in vectors):
        return call
    query, key, value = (tensor.double() for tensor in vectors)
    return Call.of(query, key, value, call.score, call.mask, call.normalise)
