"""Tokens that see all and are seen by all, to be joined with a mask that is local."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from operator import or_

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid import Grid, Tile
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.positions import first_position, own_positions


@dataclass(frozen=True, slots=True, repr=False)
class Global(Mask):
    """Tokens at these positions attend to every key, and every query attends to them; nobody to anything else.

    `Window(256, 256) | Global([0])` is Longformer with its first token global.

    Args:
        positions: which tokens, counted from 0 among the keys; a few, since each is compared with every place.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        ValueError: no position or a negative one; at the call, one past the last key.

    Source: global attention, Beltagy et al. 2020, section 3.1.
    """

    positions: Collection[int]
    offset: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", tuple(self.positions))
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

    def check(self, grid: Grid) -> None:
        """Every position must be that of a key."""
        if max(self.positions) >= grid.keys:
            raise ValueError(
                f"Global was given position {max(self.positions)}, but there are {grid.keys} keys; "
                f"positions count from 0, so they must be below {grid.keys}."
            )

    def _are_global(self, at: Int[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return reduce(or_, (at == position for position in self.positions))
