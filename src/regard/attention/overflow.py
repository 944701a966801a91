"""Checks for NaN, infinity and overflow, so that neither masked keys nor overflow of float32 spoil the results.

A kernel multiplies the value of a masked key by weight 0, and 0 · NaN = NaN. Scores that overflow float32 to +∞ give
NaN too, and a query whose scores all overflow to -∞ gets weights 0. `attend` therefore checks each context on a CPU. If
the context may be wrong, it is computed again by the backend `tiled`, which ignores the values of masked keys, and in
float64 if float32 overflows.

Only tensors on a CPU are checked, because reading numbers from another device would wait for it. Under torch.compile
and torch.func, numbers cannot be read.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Summary
from regard.attention.call import Call
from regard.attention.gradients import are_concrete
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import DotScore
from regard.attention.stages import tensors_in

HALF_SPACING = 1e31
"""Half the distance of the largest float32 from the next smaller one (rounded down).

A number overflows to ±∞ only if it is at least this far from every float32.
"""

SMALLEST_SCALE = 100 / HALF_SPACING
"""The smallest scale / temperature at which a key whose dot product overflows to -∞ may get weight 0.

The exact dot product is at least `HALF_SPACING` below every finite one. At this scale, the exact score of the key is at
least 100 below every finite score, so its exact weight is at most e⁻¹⁰⁰ of the largest weight.
"""

LARGEST_SAFE_SCORE = HALF_SPACING
"""If all scores are below this, adding a bias never overflows: the sum rounds to the largest float32 at most."""


def may_hold_nan(tensor: Float[Tensor, "*shape"]) -> bool:
    """Return whether the sum of a tensor is NaN; False if Python may not read it (on a GPU, under torch.compile, …).

    The sum is NaN if the tensor contains NaN or infinities of both signs, or if partial sums overflow to ∞ and to -∞.
    """
    return tensor.is_cpu and are_concrete((tensor,)) and math.isnan(float(tensor.detach().sum()))


def norm(tensor: Float[Tensor, "*shape"]) -> float:
    """Return the Euclidean norm of all elements of a tensor; 0 if its numbers cannot be read.

    The norm is infinite or NaN if an element is, and infinite if the sum of squares overflows.
    """
    if not (tensor.is_cpu and are_concrete((tensor,))):
        return 0.0
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    return float(torch.linalg.vector_norm(tensor.detach(), dtype=dtype))


def are_finite(*tensors: Float[Tensor, "..."]) -> bool:
    """Return whether tensors contain neither NaN nor infinity, nor numbers whose squares overflow."""
    return all(math.isfinite(norm(tensor)) for tensor in tensors)


def statistics_may_hold_nan(summary: Summary) -> bool:
    return any(may_hold_nan(numbers) for numbers in tensors_in(summary) if numbers.is_floating_point())


def may_be_wrong(call: Call, context: Float[Tensor, "batch heads queries d_value"]) -> bool:
    """Return whether the context of a call, or its gradients, may be wrong and must be computed again.

    The result is True in these cases:

    - The context contains NaN, which may come from a masked key, or from scores that overflow.
    - Scores may overflow (`may_overflow`), and the context contains infinity or a vector that begins with 0. If all
      scores of a query overflow to -∞, a fused kernel returns a vector of zeros; testing one number saves time.
    - Scores may overflow, and the context would not show it (`hides_overflow`).
    - The call needs gradients, and key or value contains NaN, infinity or numbers whose squares overflow. The backward
      pass of a fused kernel multiplies these numbers by 0 for masked keys, and 0 · NaN = NaN.
    """
    if not (context.is_cpu and (call.is_concrete or are_concrete((context,))) and context.numel()):
        return False
    numbers = context.detach() if context.requires_grad else context
    sum_of_all = numbers.sum().item()
    one_begins_with_0 = not numbers.select(-1, 0).all().item()
    if math.isnan(sum_of_all):
        return True
    if (math.isinf(sum_of_all) or one_begins_with_0 or hides_overflow(call)) and may_overflow(call):
        return True
    return call.needs_gradients and not are_finite(call.key, call.value)


def hides_overflow(call: Call) -> bool:
    """Return whether an overflow of scores can leave no trace: weights that are wrong, but neither NaN nor all 0.

    True for every normaliser but softmax, and for a softmax with temperature 0 or with scale / temperature below
    `SMALLEST_SCALE`. Any other softmax gives NaN if the largest score is infinite.
    """
    formula = call.formula
    return formula is None or formula.temperature == 0 or abs(formula.scale) / formula.temperature < SMALLEST_SCALE


def may_overflow(call: Call) -> bool:
    """Return whether a score, or a sum of weighted values, may overflow the data type of the attention weights.

    (norm of all queries + norm of all keys)² is an upper bound of every dot product and of every squared distance. For
    other scores, such as `Additive`, this bound is only an estimate. NaN and infinity count as 0.
    """
    temperature = getattr(call.normalise, "temperature", 1.0) or 1.0  # a temperature of 0 divides nothing
    query, key = call.query.detach(), call.key.detach()
    if isinstance(call.score, DotScore):  # not a ScaledDot, but a score that projects queries and keys
        with torch.no_grad():
            query, key = call.score.as_dot(query.to(call.weights_dtype), key.to(call.weights_dtype))
    norms = norm_of_finite(query) + norm_of_finite(key)
    largest_score = norms * norms
    if isinstance(call.score, ScaledDot):
        # a factor below 1 does not count: the dot products must not overflow before they are multiplied by it
        largest_score *= max(1.0, abs(call.score.factor(key.shape[-1])))
        bias = call.score.bias
        bias_is_harmless = largest_score < LARGEST_SAFE_SCORE and temperature >= 1
        if isinstance(bias, Tensor) and not bias_is_harmless:
            largest_score += norm_of_finite(bias)
    largest_sum = norm_of_finite(call.value) * call.grid.keys
    return max(largest_score / min(1.0, temperature), largest_sum) >= torch.finfo(call.weights_dtype).max


def norm_of_finite(tensor: Float[Tensor, "*shape"]) -> float:
    norm_of_all = norm(tensor)
    return norm_of_all if math.isfinite(norm_of_all) else norm(tensor.where(tensor.isfinite(), 0))


def without_overflow(call: Call) -> Call:
    """Return a copy of the call with query, key and value in float64, so that the scores do not overflow.

    Return the call itself where float64 would not help: the call is in float64 already, or its only fault is NaN or
    infinity in the input.
    """
    vectors = call.query, call.key, call.value
    is_wrong_input = not are_finite(*vectors) and not may_overflow(call)
    if call.weights_dtype == torch.float64 or is_wrong_input:
        return call
    query, key, value = (tensor.double() for tensor in vectors)
    return Call.of(query, key, value, call.score, call.mask, call.normalise)
