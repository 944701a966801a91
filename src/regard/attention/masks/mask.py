"""The interface of masks, and masks joined from others:

(a & b) keeps a key that a and b keep        (a | b) a key that a or b keeps        ~a a key that a does not keep
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.ranges import Ranges
from regard.attention.representation import describe, type_name

Kept = Bool[Tensor, "#batch #heads #queries #keys"] | Bool[Tensor, ""]
"""The booleans of a tile; of a single place (see `flex.py`), one boolean."""


class Mask(ABC):
    """A rule that says for every query and key whether the query may attend to the key. A new mask states `keep` alone.

    A mask that keeps one range of keys for each query is a `RangeMask` and states the limits of the range instead.
    """

    per_query = True
    """Whether the keys that a query may attend to depend on the query; for padding they do not."""

    @abstractmethod
    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return True where a query of this tile may attend to a key of it, broadcastable over the tile.

        Write it with `tile.along` (positions), `tile.select` (tensors that broadcast over the grid) and elementwise
        operations alone: then FlexAttention can compile the rule too.
        """

    def reach(self, grid: Grid, queries: range) -> range:
        """Return a range that holds every key to which one of these queries may attend, and perhaps other keys."""
        return range(grid.keys)

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """Return True only if each of these queries may attend to every key in their reach: no mask is needed."""
        return False

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """Return the mask as a few ranges of keys for each query, or None if the mask is not made of ranges."""
        return None

    def check(self, grid: Grid) -> None:  # noqa: B027 (most masks fit every grid)
        """Raise ValueError, naming what would fit, if this mask does not fit the grid."""

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, require_mask(other))

    def __or__(self, other: "Mask") -> "Mask":
        return Either(self, require_mask(other))

    def __rand__(self, other: object) -> "Mask":
        return require_mask(other) & self

    def __ror__(self, other: object) -> "Mask":
        return require_mask(other) | self

    def __invert__(self) -> "Mask":
        return Opposite(self)

    def __repr__(self) -> str:
        return describe(self)


def require_mask(other: object) -> Mask:
    """Raise TypeError unless the other operand of `&` or `|` is a mask; return it."""
    if not isinstance(other, Mask):
        raise TypeError(
            f"a mask joins with another mask, and this is {type_name(other)}; a boolean tensor is one as Keep(tensor)."
        )
    return other


@dataclass(frozen=True, slots=True, repr=False)
class Joined(Mask):
    """A mask joined from two masks."""

    left: Mask
    right: Mask

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        """Whether the left or the right mask depends on the query."""
        return self.left.per_query or self.right.per_query

    def check(self, grid: Grid) -> None:
        """Raise ValueError if one of the two masks does not fit the grid."""
        self.left.check(grid)
        self.right.check(grid)


class Both(Joined):
    """Keys that two masks both keep: `left & right`."""

    __slots__ = ()

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return True where both masks are True."""
        return self.left.keep(tile, device) & self.right.keep(tile, device)

    def reach(self, grid: Grid, queries: range) -> range:
        """Return the overlap of the two reaches."""
        left, right = self.left.reach(grid, queries), self.right.reach(grid, queries)
        return range(max(left.start, right.start), min(left.stop, right.stop))

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """Return whether both masks keep every key in their own reach."""
        return self.left.fills_reach(grid, queries) and self.right.fills_reach(grid, queries)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """Return the overlaps of the ranges of the two masks."""
        left, right = self.left.ranges(grid, device), self.right.ranges(grid, device)
        return None if left is None or right is None else left & right

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


class Either(Joined):
    """Keys that at least one of two masks keeps: `left | right`."""

    __slots__ = ()

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return True where one of the masks is True."""
        return self.left.keep(tile, device) | self.right.keep(tile, device)

    def reach(self, grid: Grid, queries: range) -> range:
        """Return the keys from the start of the first reach to the end of the last."""
        reaches = [r for r in (self.left.reach(grid, queries), self.right.reach(grid, queries)) if len(r)]
        return range(min([r.start for r in reaches]), max([r.stop for r in reaches])) if reaches else range(0)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """Return the ranges of the left mask, and those of the right mask outside them."""
        left, right = self.left.ranges(grid, device), self.right.ranges(grid, device)
        return None if left is None or right is None else left | right

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Opposite(Mask):
    """Keys that a mask does not keep: `~mask`."""

    mask: Mask

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        """Whether the mask depends on the query."""
        return self.mask.per_query

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return True where the mask is False."""
        return ~self.mask.keep(tile, device)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """Return the ranges between those of the mask."""
        ranges = self.mask.ranges(grid, device)
        return None if ranges is None else ~ranges

    def check(self, grid: Grid) -> None:
        """Raise ValueError if the mask does not fit the grid."""
        self.mask.check(grid)

    def __invert__(self) -> Mask:
        return self.mask

    def __repr__(self) -> str:
        return f"~{self.mask!r}"
