"""Statistics of all attention weights: `Ask` says which statistics to compute, `Summary` stores the results."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, is_integer

Reduce = Literal["mean", "max", "sum"]

PER_QUERY = "entropy", "distance", "first", "own", "previous"
"""The statistics that give one number for each query; each is a boolean field of `Ask`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ask:
    """Which statistics of the attention weights to compute: an argument of `attend` and of `Pattern.answer`.

    The queries are taken to be the last tokens of the sequence: query i is at the position of key i + keys - queries.
    All statistics but the key indices of `top` have gradients if a tensor of the call requires them.

    Attributes:
        received: compute, for each key, the sum of its weights over all queries: how much attention the key gets.
        entropy: compute the entropy of each query's weights in nats, -Σ weights · log(weights): 0 if all weight is on
            one key, log(keys) if all weights are equal; negative only if a custom normaliser gives weights above 1.
        distance: compute each query's mean distance to the keys, in tokens, weighted by its weights; 0 where all
            weights are 0.
        first: compute each query's weight on key 0. In many models this weight is very large (attention sinks, Xiao
            et al. 2024, section 3.1).
        own: compute each query's weight on the key at its own position, the diagonal.
        previous: compute each query's weight on the key just before its own position.
        groups: a boolean tensor [groups keys], True where the key belongs to the group; for each query and group,
            compute the sum of the query's weights on the keys of the group. None = no groups.
        top: how many keys with the largest weights to find for each query; None = none. If the query may attend to
            fewer keys, the remaining entries have key index -1 and weight 0.
        pooled: (rows, columns), the shape of the pooled map: a smaller matrix made from the weights, with one cell for
            each block of queries × keys. None = do not compute it.
        reduce: how the weights in a block become one cell of the pooled map: "mean", "max" or "sum".

    Raises:
        ValueError: an unknown `reduce`, or `top` is not between 1 and 2,147,483,647.
        TypeError: `top` is not an integer, or `pooled` is not two integers.
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
        if self.top is not None and not is_integer(self.top):
            raise TypeError(f"top={self.top!r} is not a number of keys; it takes a whole number, such as top=8.")
        if self.top is not None and not 1 <= self.top < 2**31:
            raise ValueError(f"top={self.top} is out of range; ask for 1 to {2**31 - 1} keys, such as top=8.")
        if self.pooled is not None:
            is_pair = isinstance(self.pooled, tuple | list) and len(self.pooled) == 2
            if not (is_pair and all(map(is_integer, self.pooled))):
                raise TypeError(
                    f"pooled={self.pooled!r} is not a size for a map; give rows and columns, such as pooled=(64, 64)."
                )
            object.__setattr__(self, "pooled", tuple(self.pooled))

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless `pooled` is from (1, 1) to (queries, keys), and `groups` is boolean [groups keys]."""
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
"""An `Ask` that requests no statistic; replace(NOTHING, entropy=True) requests the entropy alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Top:
    """For each query, the indices of the n keys with the largest weights, and these weights, largest first.

    Of equal weights, the weight on the lowest key index comes first. If a query may attend to fewer than n keys, the
    remaining entries have key index -1 and weight 0.
    """

    weights: Float[Tensor, "batch heads queries n"]
    keys: Int[Tensor, "batch heads queries n"]

    def resized(self, n: int) -> "Top":
        """Return the first `n` keys and weights of each query; key index -1 and weight 0 replace missing entries."""
        missing = max(0, n - self.keys.shape[-1])
        return Top(F.pad(self.weights[..., :n], (0, missing)), F.pad(self.keys[..., :n], (0, missing), value=-1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary:
    """The statistics of the attention weights that `ask` requests; the fields of all other statistics are None."""

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
        computed = [name for name in self.__slots__ if name != "ask" and getattr(self, name) is not None]
        return f"Summary({', '.join(computed)})"
