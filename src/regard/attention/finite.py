"""NaN and infinities among the numbers of a call, which a barred key must not bring into the results.

A kernel gives a barred key the weight 0, and 0 · NaN = NaN. Products of queries and keys that overflow float32 end as
NaN too. So a context that holds NaN is computed again by tiles, which leave barred values out, and in float64 if the
input holds finite numbers alone: then only overflow can have made the NaN.
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
    """Return the sum of a tensor's numbers: NaN if one is NaN, not finite if one is not.

    The sum is taken on a CPU alone, since on a GPU the program would have to wait for it: elsewhere, and within
    torch.compile and torch.func, it counts as 0.
    """
    return float(tensor.detach().sum()) if tensor.is_cpu and are_plain((tensor,)) else 0.0


def may_hold_nan(tensor: Float[Tensor, "*shape"]) -> bool:
    """Return whether a tensor on a CPU holds NaN, or infinities of both signs."""
    return math.isnan(total(tensor))


def may_be_infinite(tensor: Float[Tensor, "*shape"]) -> bool:
    """Return whether a tensor on a CPU holds NaN, an infinity, or numbers whose sum overflows."""
    return not math.isfinite(total(tensor))


def may_hold_nan_statistics(summary: Summary) -> bool:
    """Return whether a statistic on a CPU holds NaN."""
    return any(may_hold_nan(numbers) for numbers in tensors_in(summary) if numbers.is_floating_point())


def without_overflow(call: Call) -> Call:
    """Return the call in float64 if its tensors hold finite numbers alone, else the call itself."""
    if call.dtype == torch.float64 or not all(bool(tensor.isfinite().all()) for tensor in call.tensors):
        return call
    query, key, value = call.query.double(), call.key.double(), call.value.double()
    return Call.of(query, key, value, call.score, call.mask, call.normalise)
