"""How far two attention patterns of the same shape are apart, query by query."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern

BLOCK_WEIGHTS = 2**22
"""The largest number of weights of each pattern that are computed at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PatternDistance:
    """The distance between two patterns, for each head and query.

    Attributes:
        total_variation: half the sum over the keys of the absolute differences of the weights: the share of its
            attention that a query has moved to other keys, from 0 to 1.
        largest: the largest absolute difference of a weight.
    """

    total_variation: Float[Tensor, "batch heads queries"]
    largest: Float[Tensor, "batch heads queries"]


def pattern_distance(pattern: Pattern, other: Pattern) -> PatternDistance:
    """Return the distance between two patterns of the same shape; no whole matrix of weights is built.

    >>> import torch
    >>> from regard import Causal, attend
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> distance = pattern_distance(attend(x, x, x).pattern, attend(x, x, x, mask=Causal()).pattern)
    >>> distance.total_variation
    tensor([[[0.7500, 0.5000, 0.2500, 0.0000]]])
    """
    variations, largest = [], []
    with torch.no_grad():
        for queries in blocks(pattern):
            difference = (pattern[:, :, queries] - other[:, :, queries]).abs()
            variations.append(difference.sum(dim=-1) / 2)
            largest.append(difference.amax(dim=-1))
    return PatternDistance(torch.cat(variations, dim=-1), torch.cat(largest, dim=-1))


def blocks(pattern: Pattern) -> Iterator[slice]:
    """Yield consecutive slices of the queries, each with at most BLOCK_WEIGHTS weights or a single query."""
    batch, heads, queries, keys = pattern.shape
    step = max(1, BLOCK_WEIGHTS // max(1, batch * heads * keys))
    for start in range(0, queries, step):
        yield slice(start, start + step)
