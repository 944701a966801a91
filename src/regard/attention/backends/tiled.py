"""The tiled backend: blocks of queries over all keys, each with its weights for a moment. It does every call.

Softmax is computed on a CPU by the compiled pass that gathers statistics, with none to gather. For masks and biases
that depend on the query it is faster than PyTorch's kernel too: that needs them as a matrix, but for a causal mask, and
spends time on what they bar.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import NOTHING
from regard.attention.backends.fused import in_blocks
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.attention.statistics.choose import engine_with_context
from regard.attention.statistics.cpu.formula import has_formula

MANY = 2**19
"""Weights from which on the compiled pass is faster than PyTorch's kernel."""

FEW_QUERIES = 64
"""With fewer queries of a head it is not: keys are laid out anew for each block of them."""


def tiled(pattern: Pattern, dropout: float) -> Float[Tensor, "batch heads queries d_value"]:
    """The context."""
    if compiles(pattern):
        engine = engine_with_context(pattern, dropout)
        if engine is not None:
            context: Tensor = engine.read(pattern, NOTHING, contexts=True)[0]
            return context
    return pattern.apply(pattern.value, dropout)


def faster(pattern: Pattern, dropout: float) -> bool:
    """Whether a call is faster so than by PyTorch's kernel, which could do it too."""
    score, grid = pattern.score, pattern.grid
    per_query = isinstance(score, ScaledDot) and in_blocks(pattern.mask, score.bias)
    if not (compiles(pattern) and per_query and has_formula(score, grid)):
        return False
    many = grid.queries >= FEW_QUERIES and grid.shape.numel() >= MANY
    return many and engine_with_context(pattern, dropout) is not None


def compiles(pattern: Pattern) -> bool:
    """Whether there may be a compiled pass: on a CPU, and not within a program that torch itself compiles."""
    return pattern.query.is_cpu and not torch.compiler.is_compiling()
