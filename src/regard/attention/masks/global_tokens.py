"""A mask of global tokens, which attend to all keys, and to which all queries attend. Often joined with a `Window`."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.checks import check_integers
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.ranges import Ranges


@dataclass(frozen=True, slots=True, repr=False)
class Global(Mask):
    """Global tokens attend to every key; all other queries attend to the global tokens only.

    `Window(before=256, after=256) | Global([0])` is Longformer with its first token global.

    Args:
        positions: the key positions of the global tokens, counted from 0. The more positions, the longer the mask takes
            to evaluate.
        offset: the key position of query 0; None = keys - queries (the queries are the last tokens).

    Raises:
        ValueError: positions is empty or contains a negative position; or, raised by `attend`, a position is after the
            last key.
        TypeError: positions is a single number, or a position or the offset is not an integer.

    Source: global attention, Beltagy et al. 2020, section 3.1.
    """

    positions: Collection[int]
    offset: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.positions, int | float):
            raise TypeError(
                f"Global({self.positions}) is given a number; it takes a list of positions: Global([{self.positions}])."
            )
        object.__setattr__(self, "positions", tuple(self.positions))
        check_integers("Global", offset=self.offset)
        for position in self.positions:
            check_integers("Global", position=position)
        if not self.positions or min(self.positions) < 0:
            raise ValueError(
                f"Global(positions={list(self.positions)}) names tokens by their position, counted from 0; "
                "give at least one, and none below 0."
            )

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        positions = tile.query_positions(device, self.offset)
        return self._are_global(positions) | self._are_global(tile.key_positions(device))

    def reach(self, grid: Grid, queries: range) -> range:
        first = grid.first_position(self.offset)
        # torch.compile cannot compute `position in queries` if the number of queries is symbolic
        if any(queries.start <= position - first < queries.stop for position in self.positions):
            return range(grid.keys)
        return range(min(self.positions), max(self.positions) + 1)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        is_global = self._are_global(grid.whole().query_positions(device, self.offset).flatten())
        # a global query has all keys as its first range, and no other keys; the other queries have an empty first range
        ranges = Ranges.of(0, torch.where(is_global, grid.keys, 0), grid, device)
        positions = sorted(set(self.positions))
        firsts = [position for position in positions if position - 1 not in positions]
        lasts = [position for position in positions if position + 1 not in positions]
        for first, last in zip(firsts, lasts, strict=True):
            stop = torch.where(is_global, first, last + 1)
            ranges = ranges.with_disjoint(Ranges.of(first, stop, grid, device))
        return ranges

    def check(self, grid: Grid) -> None:
        if max(self.positions) >= grid.keys:
            raise ValueError(
                f"Global was given position {max(self.positions)}, but there are {grid.keys} keys; "
                f"positions count from 0, so they must be below {grid.keys}."
            )

    def _are_global(self, positions: Int[Tensor, "..."]) -> Bool[Tensor, "..."]:
        are_global = torch.zeros_like(positions, dtype=torch.bool)
        for position in self.positions:
            are_global = are_global | (positions == position)
        return are_global
