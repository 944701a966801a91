"""The tiled backend: blocks of queries over all keys, each with its weights for a moment. It supports every call.

On a CPU, softmax attention without gradients goes through the kernel of `statistics/cpu` instead (see `choose.py`).
"""

from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.weights import context_of


def tiled(call: Call, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    """Return the context of a call."""
    return context_of(call, call.value, dropout)
