"""Statistics of a whole pattern: `Ask` says which to compute, `Summary` has the results.

    received    Σ over queries of the weights: how much attention each key gets
    entropy     -Σ weights · log(weights): 0 for a query that looks at one key, log(keys) for one that looks at all
    distance    Σ weights · |position of the query - position of the key|, in tokens
    first       the weight on the first key, where much attention is parked (Xiao et al. 2024, section 3.1)
    top         the strongest keys of each query
    pooled      the pattern as a small map: mean, largest or sum over blocks of queries × keys

One pass computes every statistic that is asked for, in memory that grows with the length.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, is_whole

Reduce = Literal["mean", "max", "sum"]

PER_QUERY = "entropy", "distance", "first", "own", "previous"
"""The statistics with one number for each query, each asked for by a flag."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ask:
    """The statistics to compute, with the attention itself or after it.

    Queries are taken to be the last tokens, as for `Causal`: query i stands at position i + keys - queries.

    Attributes:
        received: the sum of each key's weights over all queries.
        entropy: of each query's weights, in nats.
        distance: the mean distance of each query to its keys, in tokens, weighted by the weights; 0 where all weights
            are 0.
        first: each query's weight on key 0.
        own: each query's weight on the key at its own position: the diagonal.
        previous: each query's weight on the key just before its own position.
        groups: each query's weight on groups of keys; True = in the group.
        top: the number of strongest keys of each query.
        pooled: the numbers of rows and columns of a map.
        reduce: how the weights of a cell of the map become one number.

    Raises:
        ValueError: an unknown `reduce`.
        TypeError: `top` or `pooled` are not integers.
    """

    received: bool = True
    entropy: bool = True
    distance: bool = True
    first: bool = True
    own: bool = False
    previous: bool = False
    groups: Bool[Tensor, "groups keys"] | None = None
    top: int | None = None
    pooled: tuple[int, int] | None = None
    reduce: Reduce = "mean"

    def __post_init__(self) -> None:
        if self.reduce not in get_args(Reduce):
            raise ValueError(f"reduce={self.reduce!r} is unknown; it is one of {', '.join(get_args(Reduce))}.")
        if self.top is not None and not is_whole(self.top):
            raise TypeError(f"top={self.top!r} is no number of keys; it takes a whole number, such as top=8.")
        if self.pooled is not None:
            sized = isinstance(self.pooled, tuple | list) and len(self.pooled) == 2 and all(map(is_whole, self.pooled))
            if not sized:
                raise TypeError(
                    f"pooled={self.pooled!r} is no size of a map; it takes rows and columns, such as pooled=(64, 64)."
                )
            object.__setattr__(self, "pooled", tuple(self.pooled))

    def check(self, grid: Grid) -> None:
        """Raise ValueError, naming what would fit, unless a pattern of this size has these statistics."""
        if self.top is not None and not 1 <= self.top <= grid.keys:
            raise ValueError(f"top={self.top} of {grid.keys} keys; ask for 1 to {grid.keys}.")
        if self.pooled is not None:
            rows, columns = self.pooled
            if not (1 <= rows <= grid.queries and 1 <= columns <= grid.keys):
                raise ValueError(
                    f"a map of {rows} x {columns} cells does not fit over {grid.queries} queries x {grid.keys} keys; "
                    f"ask for at most {grid.queries} x {grid.keys}."
                )
        if self.groups is not None and (self.groups.dtype != torch.bool or self.groups.shape[1:] != (grid.keys,)):
            raise ValueError(
                f"groups of dtype {self.groups.dtype} and shape {list(self.groups.shape)} over {grid.keys} keys; "
                f"give a boolean tensor of shape [groups {grid.keys}], True = in the group."
            )


NOTHING = Ask(received=False, entropy=False, distance=False, first=False)
"""No statistics; dataclasses.replace(NOTHING, …) asks for the statistics that it names."""


@dataclass(frozen=True, slots=True, eq=False)
class Top:
    """The strongest keys of each query, strongest first; weight 0 and key -1 if the query sees fewer keys."""

    weights: Float[Tensor, "batch heads queries n"]
    keys: Int[Tensor, "batch heads queries n"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary:
    """The statistics that `ask` asked for; None for the others."""

    ask: Ask
    received: Float[Tensor, "batch heads keys"] | None = None
    entropy: Float[Tensor, "batch heads queries"] | None = None
    distance: Float[Tensor, "batch heads queries"] | None = None
    first: Float[Tensor, "batch heads queries"] | None = None
    own: Float[Tensor, "batch heads queries"] | None = None
    previous: Float[Tensor, "batch heads queries"] | None = None
    groups: Float[Tensor, "batch heads queries groups"] | None = None
    top: Top | None = None
    pooled: Float[Tensor, "batch heads rows columns"] | None = None

    def __repr__(self) -> str:
        given = [name for name in self.__slots__ if name != "ask" and getattr(self, name) is not None]
        return f"Summary({', '.join(given)})"
