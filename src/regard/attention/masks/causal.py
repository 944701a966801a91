"""Masks of a decoder: nobody sees the future, or nobody but the prefix does."""

from dataclasses import dataclass

import torch
from jaxtyping import Integer
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.padding import check_lengths, over_items
from regard.attention.masks.positions import (
    all_positions,
    check_whole,
    check_whole_numbers,
    first_position,
    most,
    own_positions,
    within,
)
from regard.attention.masks.ranges import Ranges


@dataclass(frozen=True, slots=True, repr=False)
class Causal(Mask):
    """A query attends to its own position and to those before it: key j when j <= i + offset.

    Args:
        offset: position of the first query among the keys. None = keys - queries (the queries are the last tokens);
            0 = queries and keys start together.

    Raises:
        TypeError: an offset that is no whole number.

    Source: Vaswani et al. 2017, section 3.2.3.
    """

    offset: int | None = None

    def __post_init__(self) -> None:
        if self.offset is not None and not isinstance(self.offset, int):
            check_whole("Causal", offset=self.offset)

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True at the query's own position and before it."""
        return tile.along(3, device) <= tile.along(2, device) + first_position(self.offset, tile.grid)

    def reach(self, grid: Grid, queries: range) -> range:
        """Every key up to the last query's own position."""
        return within(0, own_positions(self.offset, grid, queries).stop, grid.keys)

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """One query does; two may attend to different keys."""
        return len(queries) == 1

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        """From the first key to the query's own position."""
        return Ranges.of(0, all_positions(self.offset, grid, device) + 1, grid, device)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Prefix(Mask):
    """Everybody attends to the first `length` keys; to the keys after them, causally.

    A text to be continued is read in both directions and continued in one: key j when j < length or j <= i + offset.

    Args:
        length: how many keys are the prefix, or how many are in each item of the batch.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        TypeError: an offset that is no whole number, or a length that is neither one nor a tensor of them.
        ValueError: a negative length; at the call, lengths that do not fit the batch.

    Source: prefix language model, Raffel et al. 2020, section 3.2.1.
    """

    length: int | Integer[Tensor, " batch"]
    offset: int | None = None

    def __post_init__(self) -> None:
        check_whole("Prefix", offset=self.offset)
        if not isinstance(self.length, int):
            check_whole_numbers("Prefix", "length", self.length)
        elif self.length < 0:
            raise ValueError(f"Prefix(length={self.length}) counts keys from the first, so it must be at least 0.")

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True inside the prefix, and up to the query's own position."""
        key = tile.along(3, device)
        causal = key <= tile.along(2, device) + first_position(self.offset, tile.grid)
        return causal | (key < over_items(self.length, tile, device))

    def reach(self, grid: Grid, queries: range) -> range:
        """Up to the end of the longest prefix, or to the last query's own position if that is later."""
        own = own_positions(self.offset, grid, queries)
        return within(0, max(most(self.length, grid.keys), own.stop), grid.keys)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        """From the first key to the end of the prefix, or to the query's own position if that is later."""
        length = torch.as_tensor(self.length, device=device).reshape(-1, 1, 1)
        return Ranges.of(0, torch.maximum(length, all_positions(self.offset, grid, device) + 1), grid, device)

    def check(self, grid: Grid) -> None:
        """One length for all, or one for each item of the batch."""
        check_lengths("Prefix", self.length, grid)
