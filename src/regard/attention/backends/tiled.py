"""The tiled backend: blocks of queries over all keys, each with its weights for a moment. It does every call.

Softmax of scores that the fused kernel does not have (a softcap, sinks, hidden layers) is computed on a CPU by the
compiled pass that gathers statistics, with none to gather: several times as fast as torch's operations once a head has
some ten thousand weights, as every other read and write of them is left out.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.statistics.choice import engine_with_context
from regard.attention.summary import NOTHING

WORTH_A_PASS = 2**16
"""Weights of a head from which on the compiled pass is faster."""


def tiled(pattern: Pattern, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    """The context."""
    if (
        pattern.query.is_cpu
        and not torch.compiler.is_compiling()
        and pattern.grid.queries * pattern.grid.keys >= WORTH_A_PASS
    ):
        engine = engine_with_context(pattern, dropout)
        if engine is not None:
            context: Tensor = engine.read(pattern, NOTHING, contexts=True)[0]
            return context
    return pattern.apply(pattern.value, dropout)
