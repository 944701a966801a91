"""The results of a pass: each block writes its own rows, and all blocks add to the columns.

Columns are summed with twice the digits of float64, as a sum and its rounding error. So the result does not depend on
the order of the blocks, on one machine or on several.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import PER_QUERY, Ask, Summary, Top
from regard.attention.grid.grid import Grid

CPU = torch.device("cpu")
"""The device of every tensor that the C kernel is pointed to, whatever torch's default device is."""


@dataclass(frozen=True, slots=True, eq=False)
class CompensatedSum:
    """Sums in float64, and the rounding errors that were made on the way."""

    rounded: Float[Tensor, "..."]
    error: Float[Tensor, "..."]

    @classmethod
    def zeros(cls, *shape: int) -> "CompensatedSum":
        """Return sums that are all 0."""
        rounded, error = torch.zeros(2, *shape, dtype=torch.float64, device=CPU).unbind()
        return cls(rounded, error)

    def add(self, numbers: Float[Tensor, "..."]) -> None:
        """Add a number to each sum, in place.

        Source: Knuth 1997, section 4.2.2, theorem B.

        >>> import torch
        >>> one = CompensatedSum.zeros(1)
        >>> for number in (1e30, 1.0, -1e30):
        ...     one.add(torch.tensor([number], dtype=torch.float64))
        >>> one.value()
        tensor([1.], dtype=torch.float64)
        """
        total = self.rounded + numbers
        added = total - self.rounded
        self.error.add_((self.rounded - (total - added)).add_(numbers - added))
        self.rounded.copy_(total)

    def raise_to(self, least: Float[Tensor, "..."]) -> None:
        """Replace each sum by the larger of it and a number, in place: for maps of the largest weight."""
        self.rounded.copy_(torch.maximum(self.rounded, least.double()))

    def value(self) -> Float[Tensor, "..."]:
        """Return the sums with their rounding errors added."""
        return self.rounded + self.error


@dataclass(frozen=True, slots=True, eq=False)
class MapCells:
    """Which queries and keys the cells of a pooled map are made of.

    Attributes:
        row_of_query: the row of the map that each query belongs to.
        first_key_of_column: the first key of each column of the map, and the number of keys at the end.
        sizes: the number of weights in each cell.
    """

    row_of_query: Int[Tensor, " queries"]
    first_key_of_column: Int[Tensor, " columns_and_end"]
    sizes: Int[Tensor, "rows columns"]

    @classmethod
    @lru_cache(4)
    def of(cls, queries: int, keys: int, rows: int, columns: int) -> "MapCells":
        """Return the cells of a map; they are cached, since every layer of a model often has the same."""
        row_of_query = (torch.arange(queries, device=CPU) * rows // max(1, queries)).int()
        first_key_of_column = (-(-torch.arange(columns + 1, device=CPU) * keys // max(1, columns))).int()
        sizes = row_of_query.bincount(minlength=rows)[:, None] * first_key_of_column.diff()
        return cls(row_of_query, first_key_of_column, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Tensors that the blocks of a pass write into or add to.

    Attributes:
        context: None = contexts are not computed.
        inverse: 1 / the sum of each query's unnormalised weights.
        rows: the statistics with one number for each query, by name.
        cells: the cells of the pooled map.
    """

    grid: Grid
    ask: Ask
    context: Float[Tensor, "batch heads queries d_value"] | None
    inverse: Float[Tensor, "batch heads queries"]
    rows: dict[str, Float[Tensor, "batch heads queries"]]
    groups: Float[Tensor, "batch heads queries groups"] | None
    top: Top | None
    received: CompensatedSum | None
    pooled: CompensatedSum | None
    cells: MapCells

    @classmethod
    def of(cls, grid: Grid, ask: Ask, d_value: int | None) -> "Results":
        """Return results that are all 0; `d_value` is the width of the contexts, None = no contexts."""
        per_query, n_top = grid.shape[:3], ask.top or 0
        rows, columns = ask.pooled or (0, 0)
        return cls(
            grid=grid,
            ask=ask,
            context=None if d_value is None else torch.empty(*per_query, d_value, dtype=torch.float32, device=CPU),
            inverse=zeros(*per_query),
            rows={name: zeros(*per_query) for name in PER_QUERY if getattr(ask, name)},
            groups=None if ask.groups is None else zeros(*per_query, len(ask.groups)),
            top=Top(zeros(*per_query, n_top), no_keys(*per_query, n_top)) if n_top else None,
            received=CompensatedSum.zeros(grid.batch, grid.heads, grid.keys) if ask.received else None,
            pooled=CompensatedSum.zeros(grid.batch, grid.heads, rows, columns) if ask.pooled else None,
            cells=MapCells.of(grid.queries, grid.keys, rows, columns),
        )

    def summary(self) -> Summary:
        """Return the statistics."""
        pooled = None if self.pooled is None else self.pooled.value()
        if pooled is not None and self.ask.reduce == "mean":
            pooled /= self.cells.sizes
        return Summary(
            ask=self.ask,
            received=None if self.received is None else self.received.value().float(),
            groups=self.groups,
            top=self.top,
            pooled=None if pooled is None else pooled.float(),
            **self.rows,
        )


def zeros(*shape: int) -> Float[Tensor, "..."]:
    """Return a float32 tensor of zeros on the CPU."""
    return torch.zeros(shape, dtype=torch.float32, device=CPU)


def no_keys(*shape: int) -> Int[Tensor, "..."]:
    """Return a tensor of -1, the number of no key."""
    return torch.full(shape, -1, dtype=torch.int64, device=CPU)
