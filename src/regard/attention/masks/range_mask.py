"""Masks that keep one range of keys for each query. Such a mask states the limits of the range, and nothing else:

    a query at position p may attend to key j    when    start(p) <= j < stop(p)

The boolean tile (`keep`), the ranges that kernels compare with (`ranges`) and the keys that a block of queries needs
(`reach`, `fills_reach`) follow from the limits.
"""

from abc import abstractmethod

import torch
from jaxtyping import Integer
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.lengths import check_lengths, lengths_of_tile, shortest_and_longest
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.ranges import Ranges

Number = int | Integer[Tensor, "..."]
"""A position, a length or a limit: an int, or one for each query or item, in a tensor that broadcasts over a tile."""


class RangeMask(Mask):
    """A mask that keeps one range of keys for each query."""

    offset: int | None = None
    """The position of the first query among the keys; None = keys - queries: the queries are the last tokens."""

    item_lengths: int | Integer[Tensor, " batch"] = 0
    """The lengths of the batch items, for a mask whose limits depend on the item."""

    @abstractmethod
    def limits(self, position: Number, length: Number, keys: int) -> tuple[Number | None, Number | None]:
        """Return the first key of a query's range and the key after its last one; None for a side without a limit.

        Each query of a tile has its own limits, so `position` and `length` are tensors there. For the keys that a block
        of queries needs, both are ints. Hence: elementwise operators alone. Neither limit falls as the position rises;
        each of them only rises, or only falls, as the length does.

        Args:
            position: the position of the query among the keys; a mask that is not `per_query` does not read it.
            length: the length of the query's batch item, from `item_lengths`.
            keys: how many keys there are.
        """

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return True where a key of the tile lies within the limits of the query."""
        start, stop = self._limits_of_tile(tile, device)
        key = tile.along(3, device)
        if start is None:
            return key < stop  # type: ignore[operator]  # a range has a limit on one side at least
        return key >= start if stop is None else (key >= start) & (key < stop)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        """Return the limits of all queries."""
        position: Number = 0
        length: Number = self.item_lengths
        if self.per_query:
            position = torch.arange(grid.queries, device=device) + first_position(self.offset, grid)
        if isinstance(length, Tensor):
            length = length.to(device, torch.int64)[:, None, None]
        start, stop = self.limits(position, length, grid.keys)
        return Ranges.of(0 if start is None else start, grid.keys if stop is None else stop, grid, device)

    def reach(self, grid: Grid, queries: range) -> range:
        """Return the keys from the first that one of these queries may attend to up to the last."""
        bounds = self._bounds(grid, queries)
        start, stop = bounds[0]
        for other_start, other_stop in bounds[1:]:
            start, stop = min(start, other_start), max(stop, other_stop)
        return range(start, stop)

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """Return whether all of these queries may attend to the same range."""
        if len(queries) == 1 and isinstance(self.item_lengths, int):
            return True
        bounds = self._bounds(grid, queries)
        return all(bound == bounds[0] for bound in bounds)

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless there is one length for all batch items or one for each."""
        check_lengths(self, self.item_lengths, grid)

    def _limits_of_tile(self, tile: Tile, device: torch.device) -> tuple[Number | None, Number | None]:
        position: Number = 0
        length: Number = self.item_lengths
        if self.per_query:
            position = tile.along(2, device) + first_position(self.offset, tile.grid)
        if isinstance(length, Tensor):
            length = lengths_of_tile(length, tile, device)
        return self.limits(position, length, tile.grid.keys)

    def _bounds(self, grid: Grid, queries: range) -> list[tuple[int, int]]:
        """Return the limits of the first and the last of some queries, for the shortest and the longest batch item.

        The limits of all others lie between these, as limits rise with the position and rise or fall with the length.
        """
        first, lengths, keys = first_position(self.offset, grid), self.item_lengths, grid.keys
        ends = (queries.start, queries.stop - 1) if self.per_query and len(queries) > 1 else (queries.start,)
        bounds = []
        for length in (lengths,) if isinstance(lengths, int) else shortest_and_longest(lengths, keys):
            for query in ends:
                start, stop = self.limits(query + first, length, keys)
                within = (
                    0 if start is None else max(0, min(start, keys)),
                    keys if stop is None else max(0, min(stop, keys)),
                )
                bounds.append(within)
        return bounds  # type: ignore[return-value]  # limits of ints are ints


def first_position(offset: int | None, grid: Grid) -> int:
    """Return the position of the first query among the keys; offset None = the queries are the last tokens.

    >>> first_position(None, Grid(batch=1, heads=1, queries=3, keys=11))
    8
    """
    return grid.offset if offset is None else offset
