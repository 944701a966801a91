"""Masks of the neighbourhood: all keys near the query, or every few of them."""

from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.positions import all_positions, check_whole, first_position, own_positions, within
from regard.attention.masks.ranges import Ranges


@dataclass(frozen=True, slots=True, repr=False)
class Window(Mask):
    """A query attends to keys from `before` positions before its own to `after` positions after it.

    Args:
        before, after: how many tokens on each side, besides the query's own.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        ValueError: a negative count.
        TypeError: a number that is not whole.

    Source: local attention, Luong, Pham & Manning 2015, section 3.2; sliding window, Beltagy et al. 2020, section 3.1.
    """

    before: int
    after: int
    offset: int | None = None

    def __post_init__(self) -> None:
        check_whole("Window", before=self.before, after=self.after, offset=self.offset)
        refuse_negative("Window", self.before, self.after)

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True inside the window around the query's own position."""
        own = tile.along(2, device) + first_position(self.offset, tile.grid)
        key = tile.along(3, device)
        return (key >= own - self.before) & (key <= own + self.after)

    def reach(self, grid: Grid, queries: range) -> range:
        """From the start of the first query's window to the end of the last one's."""
        own = own_positions(self.offset, grid, queries)
        return within(own.start - self.before, own.stop + self.after, grid.keys)

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """One query does; two may attend to different keys."""
        return len(queries) == 1

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        """The window around the query's own position."""
        own = all_positions(self.offset, grid, device)
        return Ranges.of(own - self.before, own + self.after + 1, grid, device)


@dataclass(frozen=True, slots=True, repr=False)
class Dilated(Mask):
    """A window with gaps: of the keys in `Window(before, after)`, every `step`-th, counted from the query's own.

    `Dilated(6, 0, step=2)` sees the query's own position and those 2, 4 and 6 before it. Made wide enough for the
    whole sequence and joined with `Causal()`, it is the strided half of the sparse Transformer.

    Args:
        before, after: how far the window goes on each side, in tokens, those in the gaps included.
        step: how far apart the keys are; 1 = a `Window`.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        ValueError: a negative count, or a step below 1.
        TypeError: a number that is not whole.

    Source: dilated sliding window, Beltagy et al. 2020, section 3.1; strided attention, Child et al. 2019, section 4.3.
    """

    before: int
    after: int
    step: int
    offset: int | None = None

    def __post_init__(self) -> None:
        check_whole("Dilated", before=self.before, after=self.after, step=self.step, offset=self.offset)
        refuse_negative("Dilated", self.before, self.after)
        if self.step < 1:
            raise ValueError(f"Dilated(step={self.step}) goes from key to key in steps, so a step must be at least 1.")

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True at every step-th key inside the window."""
        own = tile.along(2, device) + first_position(self.offset, tile.grid)
        key = tile.along(3, device)
        return (key >= own - self.before) & (key <= own + self.after) & (key % self.step == own % self.step)

    def reach(self, grid: Grid, queries: range) -> range:
        """From the first key that the first query may see to the last one that the last query may."""
        own = own_positions(self.offset, grid, queries)
        before, after = (side - side % self.step for side in (self.before, self.after))
        return within(own.start - before, own.stop + after, grid.keys)


def refuse_negative(name: str, before: int, after: int) -> None:
    """Refuse a window with a side of fewer than no tokens."""
    if before < 0 or after < 0:
        raise ValueError(
            f"{name}(before={before}, after={after}) counts tokens on each side of the query, "
            "so neither may be negative; use 0 for a side that is not seen."
        )
