"""Where the statistics of a pattern come together: every block its own rows, and all of them the columns.

What blocks add to the columns is summed with twice the digits of float64, a sum and what its rounding lost. So the
result is the same in whatever order they come, on one machine or on several.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import PER_QUERY, Ask, Summary, Top
from regard.attention.grid.grid import Grid

HERE = torch.device("cpu")
"""Where `attention.c` finds numbers, whatever torch's default device is; they are of the types it takes, not of its."""


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """Numbers that others are added to, and what has been lost of them by rounding."""

    rounded: Float[Tensor, "..."]
    lost: Float[Tensor, "..."]

    @classmethod
    def zeros(cls, *shape: int) -> "Sum":
        """All of them 0."""
        rounded, lost = torch.zeros(2, *shape, dtype=torch.float64, device=HERE).unbind()
        return cls(rounded, lost)

    def add(self, more: Float[Tensor, "..."]) -> None:
        """Add to each of them.

        Source: Knuth 1997, section 4.2.2, theorem B.

        >>> import torch
        >>> one = Sum.zeros(1)
        >>> for number in (1e30, 1.0, -1e30):
        ...     one.add(torch.tensor([number], dtype=torch.float64))
        >>> one.value()
        tensor([1.], dtype=torch.float64)
        """
        total = self.rounded + more
        added = total - self.rounded
        self.lost.add_((self.rounded - (total - added)).add_(more - added))
        self.rounded.copy_(total)

    def rise(self, least: Float[Tensor, "..."]) -> None:
        """Make each of them at least so large."""
        self.rounded.copy_(torch.maximum(self.rounded, least.double()))

    def value(self) -> Float[Tensor, "..."]:
        """The sums."""
        return self.rounded + self.lost


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Which queries and keys the cells of a map are made of.

    Attributes:
        line_of_query: the row of the map that each query falls into.
        start_of_cell: the first key of each column of the map, and an end.
        sizes: how many weights are in each cell.
    """

    line_of_query: Int[Tensor, " queries"]
    start_of_cell: Int[Tensor, " cells"]
    sizes: Int[Tensor, "rows columns"]

    @classmethod
    @lru_cache(4)
    def of(cls, queries: int, keys: int, rows: int, columns: int) -> "Places":
        """Those of a map of so many rows and columns, which is often the same for every layer of a model."""
        line_of_query = (torch.arange(queries, device=HERE) * rows // max(1, queries)).int()
        start_of_cell = (-(-torch.arange(columns + 1, device=HERE) * keys // max(1, columns))).int()
        sizes = line_of_query.bincount(minlength=rows)[:, None] * start_of_cell.diff()
        return cls(line_of_query, start_of_cell, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """The results: rows that blocks write into, and sums over the columns.

    Attributes:
        inverse: 1 / the sum of each query's unnormalised weights.
        places: where the cells of the map are.
    """

    grid: Grid
    ask: Ask
    context: Float[Tensor, "batch heads queries d_value"] | None
    inverse: Float[Tensor, "batch heads queries"]
    rows: dict[str, Float[Tensor, "batch heads queries"]]
    groups: Float[Tensor, "batch heads queries groups"] | None
    top: Top | None
    received: Sum | None
    pooled: Sum | None
    places: Places

    @classmethod
    def of(cls, grid: Grid, ask: Ask, d_value: int | None) -> "Totals":
        """All of them, at 0, but for the contexts; `d_value` is the width of those, None for none."""
        per_query, n_top = grid.shape[:3], ask.top or 0
        rows, columns = ask.pooled or (0, 0)
        return cls(
            grid=grid,
            ask=ask,
            context=None if d_value is None else torch.empty(*per_query, d_value, dtype=torch.float32, device=HERE),
            inverse=floats(*per_query),
            rows={name: floats(*per_query) for name in PER_QUERY if getattr(ask, name)},
            groups=None if ask.groups is None else floats(*per_query, len(ask.groups)),
            top=Top(floats(*per_query, n_top), none_yet(*per_query, n_top)) if n_top else None,
            received=Sum.zeros(grid.batch, grid.heads, grid.keys) if ask.received else None,
            pooled=Sum.zeros(grid.batch, grid.heads, rows, columns) if ask.pooled else None,
            places=Places.of(grid.queries, grid.keys, rows, columns),
        )

    @property
    def lines(self) -> int:
        """Rows of the map; 0 for none."""
        return self.ask.pooled[0] if self.ask.pooled else 0

    @property
    def cells(self) -> int:
        """Columns of the map; 0 for none."""
        return self.ask.pooled[1] if self.ask.pooled else 0

    def summary(self) -> Summary:
        """The answer."""
        pooled = None if self.pooled is None else self.pooled.value()
        if pooled is not None and self.ask.reduce == "mean":
            pooled /= self.places.sizes
        return Summary(
            ask=self.ask,
            received=None if self.received is None else self.received.value().float(),
            groups=self.groups,
            top=self.top,
            pooled=None if pooled is None else pooled.float(),
            **self.rows,
        )


def floats(*shape: int) -> Float[Tensor, "..."]:
    """Numbers that blocks write into, all of them 0."""
    return torch.zeros(shape, dtype=torch.float32, device=HERE)


def none_yet(*shape: int) -> Int[Tensor, "..."]:
    """Keys that are still to be found."""
    return torch.full(shape, -1, dtype=torch.int64, device=HERE)
