"""Masks that allow keys near the query's position: all such keys (`Window`), or every n-th such key (`Dilated`)."""

from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.checks import check_integers, check_not_negative
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.range_mask import Number, RangeMask


@dataclass(frozen=True, slots=True, repr=False)
class Window(RangeMask):
    """A query attends to the keys from `before` positions before the query to `after` positions after the query.

    Args:
        before, after: the numbers of allowed keys before and after the query's own position; the key at this position
            is always allowed.
        offset: the key position of query 0; None = keys - queries (the queries are the last tokens).

    Raises:
        ValueError: before or after is negative.
        TypeError: an argument is not an integer.

    Source: local attention, Luong, Pham & Manning 2015, section 3.2; sliding window, Beltagy et al. 2020, section 3.1.
    """

    before: int
    after: int
    offset: int | None = None

    def __post_init__(self) -> None:
        check_integers("Window", before=self.before, after=self.after, offset=self.offset)
        check_not_negative("Window", before=self.before, after=self.after)

    def limits(self, position: Number, length: Number, keys: int) -> tuple[Number, Number]:
        return position - self.before, position + (self.after + 1)


@dataclass(frozen=True, slots=True, repr=False)
class Dilated(Mask):
    """A window with gaps: every `step`-th key of `Window(before, after)`, counted from the query's own position.

    With `Dilated(6, 0, step=2)`, a query attends to its own position and the positions 2, 4 and 6 before it. A dilated
    window as wide as the whole sequence, & `Causal()`, is the strided attention of the sparse Transformer.

    Args:
        before, after: the size of the window before and after the query, in tokens, including the tokens in the gaps.
        step: the distance between allowed keys; 1 = the same as `Window`.
        offset: the key position of query 0; None = keys - queries (the queries are the last tokens).

    Raises:
        ValueError: before or after is negative, or step is below 1.
        TypeError: an argument is not an integer.

    Source: dilated sliding window, Beltagy et al. 2020, section 3.1; strided attention, Child et al. 2019, section 4.3.
    """

    before: int
    after: int
    step: int
    offset: int | None = None

    def __post_init__(self) -> None:
        check_integers("Dilated", before=self.before, after=self.after, step=self.step, offset=self.offset)
        check_not_negative("Dilated", before=self.before, after=self.after)
        if self.step < 1:
            raise ValueError(
                f"Dilated(step={self.step}): step is the distance between allowed keys, so it must be at least 1."
            )

    @property
    def window(self) -> Window:
        """The smallest window that contains every key to which a query may attend."""
        return Window(self.before - self.before % self.step, self.after - self.after % self.step, self.offset)

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        remainder = tile.query_positions(device, self.offset) % self.step
        return self.window.keep(tile, device) & (tile.key_positions(device) % self.step == remainder)

    def reach(self, grid: Grid, queries: range) -> range:
        return self.window.reach(grid, queries)
