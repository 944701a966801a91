"""The base class of masks, and masks joined from other masks.

a & b    allows the keys that both a and b allow
a | b    allows the keys that a or b allows
~a       allows the keys that a does not allow
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.ranges import Ranges
from regard.attention.representation import Described, type_name

Kept = Bool[Tensor, "#batch #heads #queries #keys"] | Bool[Tensor, ""]
"""A boolean mask that broadcasts to the shape of a tile (block of weights); for FlexAttention, a boolean scalar."""


class Mask(Described, ABC):
    """The base class of masks: a rule that says for each query and key whether the query may attend to the key.

    A subclass must define `keep`. A mask that allows each query one range of consecutive keys should be a subclass of
    `RangeMask` instead, and define `limits`.
    """

    per_query = True
    """Whether the allowed keys depend on the query. False if they are the same for all queries, as with padding."""

    @abstractmethod
    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return the boolean mask of a tile (block of the attention weights): True where a query may attend to a key.

        The result broadcasts to the shape of the tile. Implementations use only `tile.along` (indices along an axis),
        `tile.select` (the tile's part of a tensor that broadcasts to the whole weights) and elementwise operations, so
        that FlexAttention can compile them too.
        """

    def reach(self, grid: Grid, queries: range) -> range:
        """Return a range of keys that contains every key to which at least one of these queries may attend.

        The weights on keys outside of the range are not computed.
        """
        return range(grid.keys)

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """Return True only if each of these queries may attend to every key in the range `reach(grid, queries)`.

        No boolean mask is then computed for these queries. False is always correct, only slower.
        """
        return False

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """Return, for each query, the keys to which it may attend, as ranges of consecutive keys.

        None = the mask cannot be written as a small number of ranges for each query.
        """
        return None

    def check(self, grid: Grid) -> None:
        """Raise ValueError if the mask does not fit the numbers of batch items, heads, queries and keys in `grid`."""

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, require_mask(other))

    def __or__(self, other: "Mask") -> "Mask":
        return Either(self, require_mask(other))

    # Python calls the next two only if `other` is no mask, such as a tensor; require_mask says what to write instead.
    def __rand__(self, other: object) -> "Mask":
        return require_mask(other) & self

    def __ror__(self, other: object) -> "Mask":
        return require_mask(other) | self

    def __bool__(self) -> bool:
        raise TypeError(f"{self} is neither true nor false; join masks with & (and), | (or), ~ (not).")

    def __invert__(self) -> "Mask":
        return Opposite(self)


def keep_of_tile(mask: Mask, tile: Tile, device: torch.device) -> Kept:
    """Return `mask.keep(tile, device)`.

    Raises:
        TypeError: it is not a boolean tensor.
        ValueError: it does not have four axes that broadcast to the shape of the tile.
    """
    keep = mask.keep(tile, device)
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
        returned = f"a tensor of dtype {keep.dtype}" if isinstance(keep, Tensor) else type_name(keep)
        raise TypeError(
            f"{type(mask).__name__}.keep returned {returned}; it must return a boolean tensor, True = may attend."
        )
    tile.check(keep, mask)
    return keep


def require_mask(other: object) -> Mask:
    if not isinstance(other, Mask):
        raise TypeError(
            f"a mask can be joined only with another mask, not with {type_name(other)}; "
            "give a boolean tensor as Keep(tensor)."
        )
    return other


@dataclass(frozen=True, slots=True, repr=False)
class Joined(Mask):
    left: Mask
    right: Mask

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        return self.left.per_query or self.right.per_query

    def check(self, grid: Grid) -> None:
        self.left.check(grid)
        self.right.check(grid)


class Both(Joined):
    """`left & right`: a query may attend to the keys that both masks allow."""

    __slots__ = ()

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        return keep_of_tile(self.left, tile, device) & keep_of_tile(self.right, tile, device)

    def reach(self, grid: Grid, queries: range) -> range:
        left, right = self.left.reach(grid, queries), self.right.reach(grid, queries)
        return range(max(left.start, right.start), min(left.stop, right.stop))

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        return self.left.fills_reach(grid, queries) and self.right.fills_reach(grid, queries)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        left, right = self.left.ranges(grid, device), self.right.ranges(grid, device)
        return None if left is None or right is None else left & right

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


class Either(Joined):
    """`left | right`: a query may attend to the keys that at least one of the two masks allows."""

    __slots__ = ()

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        return keep_of_tile(self.left, tile, device) | keep_of_tile(self.right, tile, device)

    def reach(self, grid: Grid, queries: range) -> range:
        reaches = [mask.reach(grid, queries) for mask in (self.left, self.right)]
        starts = [reach.start for reach in reaches if len(reach)]
        stops = [reach.stop for reach in reaches if len(reach)]
        return range(min(starts), max(stops)) if starts else range(0)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        left, right = self.left.ranges(grid, device), self.right.ranges(grid, device)
        return None if left is None or right is None else left | right

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Opposite(Mask):
    """`~mask`: a query may attend to the keys that the mask does not allow."""

    mask: Mask

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        return self.mask.per_query

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        return ~keep_of_tile(self.mask, tile, device)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        ranges = self.mask.ranges(grid, device)
        return None if ranges is None else ~ranges

    def check(self, grid: Grid) -> None:
        self.mask.check(grid)

    def __invert__(self) -> Mask:
        return self.mask

    def __repr__(self) -> str:
        return f"~{self.mask!r}"
