"""The distance between two attention patterns of the same shape, for each query."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern

BLOCK_WEIGHTS = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class PatternDistance:
    """The distance between two attention patterns, for each head and query.

    Attributes:
        total_variation: half the sum over the keys of |weight - other weight|, from 0 to 1; above 1 only if the
            weights of a query sum to more than 1, as those of `Sigmoid` may. If they sum to less than 1, the rest
            counts as the weight on one more key; a silenced head has all its weight there.
        largest: the largest |weight - other weight| over the keys.
    """

    total_variation: Float[Tensor, "batch heads queries"]
    largest: Float[Tensor, "batch heads queries"]


def pattern_distance(pattern: Pattern, other: Pattern) -> PatternDistance:
    """Return the distance between two patterns of the same shape, computed for one block of queries at a time.

    >>> import torch
    >>> from regard import Causal, attend
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> pattern_distance(attend(x, x, x).pattern, attend(x, x, x, mask=Causal()).pattern).total_variation
    tensor([[[0.7500, 0.5000, 0.2500, 0.0000]]])
    """
    variations, largest = [], []
    with torch.no_grad():
        for queries in query_blocks(pattern):
            difference = pattern[:, :, queries] - other[:, :, queries]
            distances = difference.abs()
            on_one_more_key = difference.sum(dim=-1).abs()
            variation = (distances.sum(dim=-1) + on_one_more_key) / 2
            # the rounded weights of a query may sum to slightly more than 1
            largest_error = 64 * torch.finfo(variation.dtype).eps
            variations.append(torch.where(variation < 1 + largest_error, variation.clamp_max(1.0), variation))
            largest.append(distances.amax(dim=-1))
    return PatternDistance(torch.cat(variations, dim=-1), torch.cat(largest, dim=-1))


def query_blocks(pattern: Pattern) -> Iterator[slice]:
    """Yield slices of a pattern's queries: each has at most `BLOCK_WEIGHTS` weights, or is a single query."""
    batch, heads, queries, keys = pattern.shape
    step = max(1, BLOCK_WEIGHTS // max(1, batch * heads * keys))
    for start in range(0, queries, step):
        yield slice(start, start + step)
