"""Tokens that see all and are seen by all, to be joined with a mask that is local."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import or_

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.positions import all_positions, check_whole, first_position, own_positions
from regard.attention.masks.ranges import Ranges


@dataclass(frozen=True, slots=True, repr=False)
class Global(Mask):
    """Tokens at these positions attend to every key, and every query attends to them; nobody to anything else.

    `Window(256, 256) | Global([0])` is Longformer with its first token global.

    Args:
        positions: which tokens, counted from 0 among the keys; a few, since each is compared with every place.
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
        """True where the query or the key is one of these tokens."""
        own = tile.along(2, device) + first_position(self.offset, tile.grid)
        return self._are_global(own) | self._are_global(tile.along(3, device))

    def reach(self, grid: Grid, queries: range) -> range:
        """All keys if one of the queries is such a token, else from the first such token to the last."""
        own = own_positions(self.offset, grid, queries)
        if any(position in own for position in self.positions):
            return range(grid.keys)
        return range(min(self.positions), max(self.positions) + 1)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        """All keys for such a token; for the others a range around each such key, or around several side by side."""
        is_global = self._are_global(all_positions(self.offset, grid, device))
        every = Ranges.of(0, is_global * grid.keys, grid, device)
        for first, last in neighbours(self.positions):
            every = every.beside(Ranges.of(first, torch.where(is_global, first, last + 1), grid, device))
        return every

    def check(self, grid: Grid) -> None:
        """Every position must be that of a key."""
        if max(self.positions) >= grid.keys:
            raise ValueError(
                f"Global was given position {max(self.positions)}, but there are {grid.keys} keys; "
                f"positions count from 0, so they must be below {grid.keys}."
            )

    def _are_global(self, at: Int[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return reduce(or_, (at == position for position in self.positions))


def neighbours(positions: Collection[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of positions side by side.

    >>> list(neighbours([5, 0, 6, 1, 9]))
    [(0, 1), (5, 6), (9, 9)]
    """
    for _, run in groupby(enumerate(sorted(set(positions))), key=lambda numbered: numbered[1] - numbered[0]):
        places = [place for _, place in run]
        yield places[0], places[-1]
