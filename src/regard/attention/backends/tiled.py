"""The tiled backend: computes the weights of one block of queries at a time, over all keys; it supports every call.

On a CPU, softmax attention without gradients is computed by the C kernel of `statistics/cpu` instead.
"""

from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.weights import context_of


def tiled_context(call: Call, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    """Return the context of a call of `attend`, computed for one block of queries at a time."""
    return context_of(call, call.value, dropout)
