"""The results of a run of the C kernel: statistics of each query, and sums over queries.

The sums over queries are the attention that each key receives, and the pooled map (weights reduced to rows × columns).
Threads add to them in any order. Each sum is two float64 numbers, the sum and its rounding error, so that the result
does not depend on the order.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import PER_QUERY, Ask, Summary, Top
from regard.attention.grid.grid import Grid

CPU = torch.device("cpu")
"""The device of every tensor that is passed to the C kernel; torch's default device may be another device."""


@dataclass(frozen=True, slots=True, eq=False)
class CompensatedSum:
    """A tensor of sums in float64, and a tensor of their rounding errors."""

    rounded: Float[Tensor, "..."]
    error: Float[Tensor, "..."]

    @classmethod
    def zeros(cls, *shape: int) -> "CompensatedSum":
        rounded, error = torch.zeros(2, *shape, dtype=torch.float64, device=CPU).unbind()
        return cls(rounded, error)

    def add(self, numbers: Float[Tensor, "..."]) -> None:
        """Add the tensor `numbers` to the tensor of sums, in place.

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

    def take_maximum(self, numbers: Float[Tensor, "..."]) -> None:
        self.rounded.copy_(torch.maximum(self.rounded, numbers.double()))

    def value(self) -> Float[Tensor, "..."]:
        return self.rounded + self.error


@dataclass(frozen=True, slots=True, eq=False)
class MapCells:
    """Each query's row and each column's first key in the pooled map (weights reduced to rows × columns)."""

    row_of_query: Int[Tensor, " queries"]
    first_key_of_column: Int[Tensor, " columns_and_end"]  # at the end the number of keys
    sizes: Int[Tensor, "rows columns"]  # the number of weights that each cell pools

    @classmethod
    @lru_cache(4)
    def of(cls, queries: int, keys: int, rows: int, columns: int) -> "MapCells":
        """Divide queries among the map's rows and keys among its columns; cached, as layers often have equal sizes."""
        row_of_query = (torch.arange(queries, device=CPU) * rows // max(1, queries)).int()
        # the first key of column c is c · keys / columns, rounded up
        first_key_of_column = (-(-torch.arange(columns + 1, device=CPU) * keys // max(1, columns))).int()
        sizes = row_of_query.bincount(minlength=rows)[:, None] * first_key_of_column.diff()
        return cls(row_of_query, first_key_of_column, sizes)


@dataclass(slots=True, eq=False)
class Results:
    """The context and the statistics that the C kernel writes, and its inputs `members`, `cells`; None = not used."""

    ask: Ask
    context: Float[Tensor, "batch heads queries d_value"] | None
    """In memory, the contexts of a token's heads are adjacent: a model concatenates them without a copy."""
    inverse: Float[Tensor, "batch heads queries"]  # 1 / Σ exp(score - largest score), sink included
    per_query: dict[str, Float[Tensor, "batch heads queries"]]  # by field names of `Ask`
    groups: Float[Tensor, "batch heads queries groups"] | None  # the sum of weights on the keys of each group
    members: Float[Tensor, "1 1 keys groups"] | None  # 1 if the key is in the group, else 0
    top: Top | None
    received: CompensatedSum | None
    pooled: CompensatedSum | None  # the sum, or the maximum, of the weights in each cell of the map
    cells: MapCells | None
    needs_check: bool = False  # whether to check the context for NaN and overflow (`doubtful` in attention.h)

    @classmethod
    def of(cls, grid: Grid, ask: Ask, d_value: int | None) -> "Results":
        """Allocate the tensors; `d_value` is the width of the context, None = the context is not computed."""
        shape, zeros = (grid.batch, grid.heads, grid.queries), partial(torch.zeros, dtype=torch.float32, device=CPU)
        context = top = None
        if d_value is not None:
            by_token = torch.empty(grid.batch, grid.queries, grid.heads, d_value, dtype=torch.float32, device=CPU)
            context = by_token.transpose(1, 2)
        if ask.top is not None:
            no_keys = torch.full((*shape, ask.top), -1, dtype=torch.int64, device=CPU)
            top = Top(zeros(*shape, ask.top), no_keys)
        return cls(
            ask=ask,
            context=context,
            inverse=zeros(*shape),
            per_query={name: zeros(*shape) for name in PER_QUERY if getattr(ask, name)},
            groups=None if ask.groups is None else zeros(*shape, len(ask.groups)),
            members=None if ask.groups is None else ask.groups.T.float().contiguous()[None, None],
            top=top,
            received=CompensatedSum.zeros(grid.batch, grid.heads, grid.keys) if ask.received else None,
            pooled=None if ask.pooled is None else CompensatedSum.zeros(grid.batch, grid.heads, *ask.pooled),
            cells=None if ask.pooled is None else MapCells.of(grid.queries, grid.keys, *ask.pooled),
        )

    def summary(self) -> Summary:
        pooled = None if self.pooled is None else self.pooled.value()
        if pooled is not None and self.cells is not None and self.ask.reduce == "mean":
            pooled /= self.cells.sizes
        return Summary(
            ask=self.ask,
            received=None if self.received is None else self.received.value().float(),
            groups=self.groups,
            top=self.top,
            pooled=None if pooled is None else pooled.float(),
            **self.per_query,
        )
