"""One head of attention in NumPy, step by step, in float64.

    products = Q Kᵀ
    scores   = products / √d_k                  or · scale; then a softcap and a bias (see `head_steps`)
    masked   = scores                           -∞ where the query may not attend to the key
    tempered = masked / temperature             = masked if the temperature is 0
    weights  = softmax(tempered)                row by row
    context  = weights V

NumPy is enough for a worked example, and a command that needs no PyTorch starts at once. The tests compare every step
with `regard.attend`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.by_hand.example_inputs import ExampleInputs

Matrix = Float[np.ndarray, "_ _"]
"""A matrix of a worked example, in float64."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadSteps:
    """The matrices of one head of attention, in the order in which they are computed."""

    query: Float[np.ndarray, "queries d_key"]
    key: Float[np.ndarray, "keys d_key"]
    value: Float[np.ndarray, "keys d_value"]
    products: Float[np.ndarray, "queries keys"]
    scores: Float[np.ndarray, "queries keys"]
    masked: Float[np.ndarray, "queries keys"]
    tempered: Float[np.ndarray, "queries keys"]
    weights: Float[np.ndarray, "queries keys"]
    context: Float[np.ndarray, "queries d_value"]


def head_steps(
    inputs: ExampleInputs,
    query: Float[np.ndarray, "queries d_key"],
    key: Float[np.ndarray, "keys d_key"],
    value: Float[np.ndarray, "keys d_value"],
    bias: Float[np.ndarray, "queries keys"] | None,
    sink: float | None,
) -> HeadSteps:
    """Compute one head of attention, and return the matrix of every step.

    Args:
        inputs: the worked example, whose scale, softcap, mask and temperature are used.
        bias: the matrix that is added to the scores of this head; None = no bias.
        sink: one more score in the softmax of every query, which belongs to no key; None = no sink.
    """
    scale, softcap, keep, temperature = inputs.scale, inputs.softcap, inputs.keep, inputs.temperature
    products = query @ key.T
    scores = products * (query.shape[1] ** -0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
    scores = scores if bias is None else scores + bias
    masked = scores if keep is None else np.where(keep, scores, -np.inf)
    if temperature == 0:
        tempered, weights = masked, softmax_at_temperature_0(masked, sink)
    else:
        tempered = masked / temperature
        weights = softmax(tempered, None if sink is None else sink / temperature)
    return HeadSteps(
        query=query,
        key=key,
        value=value,
        products=products,
        scores=scores,
        masked=masked,
        tempered=tempered,
        weights=weights,
        context=weights @ value,
    )


def softmax(scores: Matrix, sink: float | None = None) -> Matrix:
    """Return the softmax of each row of scores; a row of only -∞, without a sink, gives weights 0.

    >>> softmax(np.log([[1.0, 2.0, 1.0]]))
    array([[0.25, 0.5 , 0.25]])
    """
    largest = largest_of_each_row(scores, sink)
    exponentials = np.exp(scores - largest)  # subtracting the largest avoids overflow and does not change the weights
    total = exponentials.sum(axis=1, keepdims=True) + (0 if sink is None else np.exp(sink - largest))
    return np.divide(exponentials, total, out=np.zeros_like(scores), where=total != 0)


def softmax_at_temperature_0(scores: Matrix, sink: float | None = None) -> Matrix:
    """Return equal weights on the largest scores of each row, and 0 on all others.

    >>> softmax_at_temperature_0(np.array([[2.0, 1.0, 2.0]]))
    array([[0.5, 0. , 0.5]])
    """
    largest = largest_of_each_row(scores, sink)
    is_largest = (scores == largest).astype(float)
    total = is_largest.sum(axis=1, keepdims=True) + (0 if sink is None else sink == largest)
    return np.divide(is_largest, total, out=np.zeros_like(scores), where=total != 0)


def largest_of_each_row(scores: Matrix, sink: float | None) -> Float[np.ndarray, "rows 1"]:
    """Return the largest score of each row, or the sink if the sink is larger; 0 for a row of only -∞."""
    largest = scores.max(axis=1, keepdims=True, initial=-np.inf if sink is None else sink)
    return np.where(np.isneginf(largest), 0.0, largest)
