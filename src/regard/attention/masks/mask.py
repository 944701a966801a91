"""What every mask has, and how masks join: both must allow, one must allow, the opposite.

(a & b) keeps what a and b keep        (a | b) what one of them keeps        ~a what a does not
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
"""What a mask says of a tile; of a single place (see `flex.py`), one truth."""


class Mask(ABC):
    """A rule that says of every query and key whether the one may attend to the other."""

    per_query = True
    """Whether what a query may attend to depends on which query it is (not so for padding)."""

    @abstractmethod
    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where a query of this tile may attend to a key of it; broadcasts over the tile.

        Write it with `tile.along` (positions), `tile.select` (tensors that lie over the grid) and elementwise
        operations alone: then FlexAttention can have the rule too.
        """

    def reach(self, grid: Grid, queries: range) -> range:
        """Keys outside this range are kept from all of these queries; inside it some may be too."""
        return range(grid.keys)

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """Whether each of these queries may attend to every key within their reach: there, no mask is needed."""
        return False

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """The same rule as a few ranges of keys for each query; None where it is not that."""
        return None

    def check(self, grid: Grid) -> None:  # noqa: B027 (most masks fit every grid)
        """Raise ValueError, naming what would fit, if this mask does not fit the grid."""

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, as_other(other))

    def __or__(self, other: "Mask") -> "Mask":
        return Either(self, as_other(other))

    def __rand__(self, other: object) -> "Mask":
        return as_other(other) & self

    def __ror__(self, other: object) -> "Mask":
        return as_other(other) | self

    def __invert__(self) -> "Mask":
        return Opposite(self)

    def __repr__(self) -> str:
        return describe(self)


def as_other(other: object) -> Mask:
    """What a mask is joined with, once it is known to be one."""
    if not isinstance(other, Mask):
        raise TypeError(
            f"a mask joins with another mask, and this is {type_name(other)}; a boolean tensor is one as Keep(tensor)."
        )
    return other


@dataclass(frozen=True, slots=True, repr=False)
class Joined(Mask):
    """Two masks as one."""

    left: Mask
    right: Mask

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        """Whether either side depends on the query."""
        return self.left.per_query or self.right.per_query

    def check(self, grid: Grid) -> None:
        """Both must fit."""
        self.left.check(grid)
        self.right.check(grid)


class Both(Joined):
    """Keys that two masks both allow."""

    __slots__ = ()

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where both are."""
        return self.left.keep(tile, device) & self.right.keep(tile, device)

    def reach(self, grid: Grid, queries: range) -> range:
        """Where the two reaches overlap."""
        left, right = self.left.reach(grid, queries), self.right.reach(grid, queries)
        return range(max(left.start, right.start), min(left.stop, right.stop))

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """Where both do."""
        return self.left.fills_reach(grid, queries) and self.right.fills_reach(grid, queries)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """Where ranges of the two overlap."""
        left, right = self.left.ranges(grid, device), self.right.ranges(grid, device)
        return None if left is None or right is None else left & right

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


class Either(Joined):
    """Keys that at least one of two masks allows."""

    __slots__ = ()

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where one of them is."""
        return self.left.keep(tile, device) | self.right.keep(tile, device)

    def reach(self, grid: Grid, queries: range) -> range:
        """From the start of the first reach to the end of the last."""
        reaches = [r for r in (self.left.reach(grid, queries), self.right.reach(grid, queries)) if len(r)]
        return range(min([r.start for r in reaches]), max([r.stop for r in reaches])) if reaches else range(0)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """The ranges of either."""
        left, right = self.left.ranges(grid, device), self.right.ranges(grid, device)
        return None if left is None or right is None else left | right

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Opposite(Mask):
    """Keys that a mask does not allow."""

    mask: Mask

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        """As the mask itself."""
        return self.mask.per_query

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where the mask is False."""
        return ~self.mask.keep(tile, device)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """What lies between the mask's own."""
        ranges = self.mask.ranges(grid, device)
        return None if ranges is None else ~ranges

    def check(self, grid: Grid) -> None:
        """The mask itself must fit."""
        self.mask.check(grid)

    def __invert__(self) -> Mask:
        return self.mask

    def __repr__(self) -> str:
        return f"~{self.mask!r}"
