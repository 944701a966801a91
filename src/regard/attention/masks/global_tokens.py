"""Global tokens, which see all keys and are seen by all queries; to be joined with a mask that is local."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import or_

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.checks import check_whole
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.range_mask import first_position
from regard.attention.masks.ranges import Ranges


@dataclass(frozen=True, slots=True, repr=False)
class Global(Mask):
    """Tokens at these positions attend to every key, and every query attends to them; nobody to anything else.

    `Window(256, 256) | Global([0])` is Longformer with its first token global.

    Args:
        positions: the positions of the tokens among the keys, from 0; a few, since each is compared with every key.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        ValueError: no position or a negative one; at the call, one past the last key.
        TypeError: one position instead of several, or one that is no whole number.

    Source: global attention, Beltagy et al. 2020, section 3.1.
    """

    positions: Collection[int]
    offset: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.positions, int | float):
            raise TypeError(
                f"Global({self.positions}) takes several positions; one goes in a list: Global([{self.positions}])."
            )
        object.__setattr__(self, "positions", tuple(self.positions))
        check_whole("Global", offset=self.offset)
        for position in self.positions:
            check_whole("Global", position=position)
        if not self.positions or min(self.positions) < 0:
            raise ValueError(
                f"Global(positions={list(self.positions)}) names tokens by their place, counted from 0; "
                "give at least one, and none below 0."
            )

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return True where the query or the key is a global token."""
        position = tile.along(2, device) + first_position(self.offset, tile.grid)
        return self._are_global(position) | self._are_global(tile.along(3, device))

    def reach(self, grid: Grid, queries: range) -> range:
        """Return all keys if one of the queries is a global token, else the keys from the first such token to the last.

        No `RangeMask` has this rule: the limits fall again after a query that is a global token.
        """
        first = first_position(self.offset, grid)
        if any(position - first in queries for position in self.positions):
            return range(grid.keys)
        return range(min(self.positions), max(self.positions) + 1)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        """Return all keys for a global token; for any other query, one range for each run of global tokens."""
        is_global = self._are_global(torch.arange(grid.queries, device=device) + first_position(self.offset, grid))
        ranges = Ranges.of(0, is_global * grid.keys, grid, device)
        for first, last in runs(self.positions):
            ranges = ranges.with_disjoint(Ranges.of(first, torch.where(is_global, first, last + 1), grid, device))
        return ranges

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless every position is that of a key."""
        if max(self.positions) >= grid.keys:
            raise ValueError(
                f"Global was given position {max(self.positions)}, but there are {grid.keys} keys; "
                f"positions count from 0, so they must be below {grid.keys}."
            )

    def _are_global(self, positions: Int[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return reduce(or_, (positions == position for position in self.positions))


def runs(positions: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive positions.

    >>> list(runs([5, 0, 6, 1, 9]))
    [(0, 1), (5, 6), (9, 9)]
    """
    for _, numbered in groupby(enumerate(sorted(set(positions))), key=lambda pair: pair[1] - pair[0]):
        run = [position for _, position in numbered]
        yield run[0], run[-1]
