"""What can be asked of a pattern as a whole, and the answer.

    received    Σ over queries of the weights: how much attention each key gets
    entropy     -Σ weights · log(weights): 0 for a query that looks at one key, log(keys) for one that looks at all
    distance    Σ weights · |position of the query - position of the key|, in tokens
    first       the weight on the first key, where much attention is parked (Xiao et al. 2024, section 3.1)
    top         the strongest keys of each query
    pooled      the pattern as a small map: mean, largest or sum over blocks of queries × keys

One pass serves everything that is asked for, and its memory grows with the length.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, is_whole

Reduce = Literal["mean", "max", "sum"]

PER_QUERY = "entropy", "distance", "first", "own", "previous"
"""What is asked with one flag and answered with one number for each query."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ask:
    """What is asked of a pattern, beside or after the attention itself.

    Queries are taken to be the last tokens, as for `Causal`: query i stands at position i + keys - queries.

    Attributes:
        received: the sum of each key's weights over all queries.
        entropy: of each query's weights, in nats.
        distance: of each query to the keys it reads, on average, in tokens.
        first: each query's weight on key 0.
        own: each query's weight on the key at its own position: the diagonal.
        previous: each query's weight on the key just before that.
        groups: each query's weight on groups of keys; True = in the group.
        top: so many strongest keys of each query.
        pooled: a map of so many rows and columns.
        reduce: what a cell of the map holds of its weights.

    Raises:
        ValueError: a reduction that there is not.
        TypeError: a number of keys, or of rows and columns, that is not whole.
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
        """Raise ValueError, naming what would fit, if this cannot be asked of a pattern of this size."""
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
"""No statistics; with dataclasses.replace, just those that are named."""


@dataclass(frozen=True, slots=True, eq=False)
class Top:
    """The strongest keys of each query, strongest first; where fewer are visible, weight 0 and key -1."""

    weights: Float[Tensor, "batch heads queries n"]
    keys: Int[Tensor, "batch heads queries n"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary:
    """The answer to `Ask`: what was asked for, None for the rest."""

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
