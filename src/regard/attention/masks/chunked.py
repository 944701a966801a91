"""Attention inside chunks of the sequence."""

from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.positions import all_positions, check_whole, first_position, own_positions, within
from regard.attention.masks.ranges import Ranges


@dataclass(frozen=True, slots=True, repr=False)
class Chunked(Mask):
    """The sequence is cut into chunks of `size` tokens, and a query attends to the keys of its own chunk.

    Llama 4's chunked attention, which is causal too, is `Causal() & Chunked(8192)`.

    Args:
        size: tokens in a chunk; the last one may be shorter.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        ValueError: a size below 1.
        TypeError: a number that is not whole.

    Source: blockwise attention, Qiu et al. 2020, section 3, each block with itself.
    """

    size: int
    offset: int | None = None

    def __post_init__(self) -> None:
        check_whole("Chunked", size=self.size, offset=self.offset)
        if self.size < 1:
            raise ValueError(f"Chunked(size={self.size}) cuts the tokens into chunks, so a chunk takes at least 1.")

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where query and key lie in the same chunk."""
        own = tile.along(2, device) + first_position(self.offset, tile.grid)
        return tile.along(3, device) // self.size == own // self.size

    def reach(self, grid: Grid, queries: range) -> range:
        """From the start of the first query's chunk to the end of the last one's."""
        own = own_positions(self.offset, grid, queries)
        return within(own.start // self.size * self.size, ((own.stop - 1) // self.size + 1) * self.size, grid.keys)

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """One query does; two may attend to different keys."""
        return len(queries) == 1

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        """The query's own chunk."""
        start = all_positions(self.offset, grid, device) // self.size * self.size
        return Ranges.of(start, start + self.size, grid, device)
