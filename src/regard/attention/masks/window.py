"""Masks of the neighbourhood: all keys near the query, or every few of them."""

from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.checks import check_not_negative, check_whole
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.range_mask import Number, RangeMask, first_position


@dataclass(frozen=True, slots=True, repr=False)
class Window(RangeMask):
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
        check_not_negative("Window", before=self.before, after=self.after)

    def limits(self, position: Number, length: Number, keys: int) -> tuple[Number, Number]:
        """Return the window around the query's position."""
        return position - self.before, position + (self.after + 1)


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
        check_not_negative("Dilated", before=self.before, after=self.after)
        if self.step < 1:
            raise ValueError(f"Dilated(step={self.step}) goes from key to key in steps, so a step must be at least 1.")

    @property
    def window(self) -> Window:
        """The window from the first key that a query may see to the last, gaps included."""
        return Window(self.before - self.before % self.step, self.after - self.after % self.step, self.offset)

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return True at every step-th key of the window, counted from the query's position."""
        position = tile.along(2, device) + first_position(self.offset, tile.grid)
        return self.window.keep(tile, device) & (tile.along(3, device) % self.step == position % self.step)

    def reach(self, grid: Grid, queries: range) -> range:
        """Return the reach of the window."""
        return self.window.reach(grid, queries)
