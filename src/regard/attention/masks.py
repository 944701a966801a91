"""Masks: which keys each query may attend to. True = may attend.

A mask is a rule over positions, not a matrix: it is asked for one tile of the grid at a time, so a causal mask over a
million tokens takes no memory. Masks join with `&` (both must allow), `|` (one must allow) and `~` (the opposite).

Queries are taken to be the *last* tokens, as they are with a cache of earlier keys: query i stands at position
i + keys - queries. `Causal` and `Window` take another `offset` where that is not so.

    python -m regard.attention.masks        draws each of them
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid import Grid, Tile, numbers
from regard.attention.introduce import introduce

Kept = Bool[Tensor, "#batch #heads #queries #keys"]


class Mask(ABC):
    """A rule that says of every query and key whether the one may attend to the other."""

    per_query = True
    """Whether what a query may attend to depends on which query it is (not so for padding)."""

    @abstractmethod
    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where a query of this tile may attend to a key of it; broadcasts over the tile."""

    def reach(self, grid: Grid, queries: range) -> range:
        """Keys outside this range are kept from all of these queries; inside it some may be too."""
        return range(grid.keys)

    def check(self, grid: Grid) -> None:  # noqa: B027 (most masks fit every grid)
        """Raise ValueError, naming what would fit, if this mask does not fit the grid."""

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return Either(self, other)

    def __invert__(self) -> "Mask":
        return Opposite(self)

    def __repr__(self) -> str:
        return introduce(self)


@dataclass(frozen=True, slots=True, repr=False)
class Causal(Mask):
    """A query attends to its own position and to those before it: key j when j <= i + offset.

    Args:
        offset: position of the first query among the keys. None = keys - queries (the queries are the last tokens);
            0 = queries and keys start together.

    Source: Vaswani et al. 2017, section 3.2.3.
    """

    offset: int | None = None

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True at the query's own position and before it."""
        return tile.along(3, device) <= tile.along(2, device) + self._offset(tile.grid)

    def reach(self, grid: Grid, queries: range) -> range:
        """Every key up to the last query's own position."""
        return range(clamp(queries.stop + self._offset(grid), grid.keys))

    def _offset(self, grid: Grid) -> int:
        return grid.offset if self.offset is None else self.offset


@dataclass(frozen=True, slots=True, repr=False)
class Window(Mask):
    """A query attends to keys from `before` positions before its own to `after` positions after it.

    Args:
        before, after: how many tokens on each side, besides the query's own.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        ValueError: a negative count.

    Source: local attention, Luong, Pham & Manning 2015, section 3.2; sliding window, Beltagy et al. 2020, section 3.1.
    """

    before: int
    after: int
    offset: int | None = None

    def __post_init__(self) -> None:
        if self.before < 0 or self.after < 0:
            raise ValueError(
                f"Window(before={self.before}, after={self.after}) counts tokens on each side of the query, "
                "so neither may be negative; use 0 for a side that is not seen."
            )

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True inside the window around the query's own position."""
        own = tile.along(2, device) + self._offset(tile.grid)
        key = tile.along(3, device)
        return (key >= own - self.before) & (key <= own + self.after)

    def reach(self, grid: Grid, queries: range) -> range:
        """From the start of the first query's window to the end of the last one's."""
        first, last = queries.start + self._offset(grid), queries.stop - 1 + self._offset(grid)
        return range(clamp(first - self.before, grid.keys), clamp(last + self.after + 1, grid.keys))

    def _offset(self, grid: Grid) -> int:
        return grid.offset if self.offset is None else self.offset


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Padding(Mask):
    """The first `lengths[item]` keys of each batch item are tokens, the rest is padding that nobody attends to.

    Args:
        lengths: how many tokens each item of the batch has.
    """

    lengths: Int[Tensor, " batch"]
    per_query = False

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True for keys that are tokens."""
        lengths = self.lengths.to(device)[:, None, None, None]
        return tile.along(3, device) < tile.select(lengths)

    def check(self, grid: Grid) -> None:
        """There must be one length for each item of the batch."""
        if len(self.lengths) not in (1, grid.batch):
            raise ValueError(
                f"Padding was given {len(self.lengths)} lengths for a batch of {grid.batch}; give one for each item."
            )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Documents(Mask):
    """Several documents packed into one sequence: a query attends to the keys of its own document.

    Args:
        ids: the document that each key belongs to; any whole numbers.
    """

    ids: Int[Tensor, "*batch tokens"]

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where query and key belong to the same document."""
        ids = self.ids.to(device)
        ids = ids[None] if ids.ndim == 1 else ids
        ids = ids if len(ids) == 1 else ids.index_select(0, numbers(tile.batch, device))
        of_queries = ids.index_select(1, numbers(tile.queries, device) + tile.grid.offset)
        of_keys = ids.index_select(1, numbers(tile.keys, device))
        return of_queries[:, None, :, None] == of_keys[:, None, None, :]

    def check(self, grid: Grid) -> None:
        """Every key needs a document, and every query must be one of the tokens."""
        fits = self.ids.ndim == 1 or (self.ids.ndim == 2 and len(self.ids) in (1, grid.batch))
        if not fits or self.ids.shape[-1] != grid.keys:
            raise ValueError(
                f"Documents was given ids of shape {list(self.ids.shape)}; with {grid} it takes [{grid.keys}] "
                f"or [{grid.batch}, {grid.keys}], the document of each key."
            )
        if grid.queries > grid.keys:
            raise ValueError(
                f"Documents takes the queries to be the last of the tokens, but there are {grid.queries} queries "
                f"and only {grid.keys} keys; use Keep with a boolean tensor instead."
            )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Keep(Mask):
    """Any mask at all, as a boolean tensor that broadcasts to [batch heads queries keys]; True = may attend."""

    tensor: Bool[Tensor, "*shape"]

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        """Whether the tensor has a row for each query."""
        return self.tensor.ndim >= 2 and self.tensor.shape[-2] != 1

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """The tensor's own part."""
        return tile.select(self.tensor.to(device))

    def check(self, grid: Grid) -> None:
        """The tensor must broadcast to the grid."""
        if not grid.admits(self.tensor):
            raise ValueError(
                f"mask of shape {list(self.tensor.shape)} does not broadcast to {list(grid.shape)} "
                "(batch, heads, queries, keys); every axis must have that size or 1."
            )


@dataclass(frozen=True, slots=True, repr=False)
class Both(Mask):
    """Keys that two masks both allow."""

    left: Mask
    right: Mask

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        """Whether either side depends on the query."""
        return self.left.per_query or self.right.per_query

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where both are."""
        return self.left.keep(tile, device) & self.right.keep(tile, device)

    def reach(self, grid: Grid, queries: range) -> range:
        """Where the two reaches overlap."""
        left, right = self.left.reach(grid, queries), self.right.reach(grid, queries)
        return range(max(left.start, right.start), min(left.stop, right.stop))

    def check(self, grid: Grid) -> None:
        """Both must fit."""
        self.left.check(grid)
        self.right.check(grid)

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Either(Mask):
    """Keys that at least one of two masks allows."""

    left: Mask
    right: Mask

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        """Whether either side depends on the query."""
        return self.left.per_query or self.right.per_query

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True where one of them is."""
        return self.left.keep(tile, device) | self.right.keep(tile, device)

    def reach(self, grid: Grid, queries: range) -> range:
        """From the start of the first reach to the end of the last."""
        reaches = [r for r in (self.left.reach(grid, queries), self.right.reach(grid, queries)) if len(r)]
        return range(min((r.start for r in reaches), default=0), max((r.stop for r in reaches), default=0))

    def check(self, grid: Grid) -> None:
        """Both must fit."""
        self.left.check(grid)
        self.right.check(grid)

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

    def check(self, grid: Grid) -> None:
        """The mask itself must fit."""
        self.mask.check(grid)

    def __repr__(self) -> str:
        return f"~{self.mask!r}"


def as_mask(mask: Mask | Tensor | None) -> Mask | None:
    """A mask as given to `attend`: a boolean tensor is taken as `Keep`.

    Raises:
        TypeError: a tensor that is not boolean, or something that is no mask.
    """
    if mask is None or isinstance(mask, Mask):
        return mask
    if not isinstance(mask, Tensor):
        raise TypeError(
            f"mask is a {type(mask).__name__}; it takes a Mask such as Causal(), a boolean tensor "
            "(True = may attend) or None."
        )
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask has dtype {mask.dtype}; a mask is boolean, True = may attend. Numbers to be added to the scores "
            "are a bias: score=ScaledDot(bias=…)."
        )
    return Keep(mask)


def clamp(position: int, keys: int) -> int:
    """The position, brought into 0 … keys."""
    return max(0, min(position, keys))


if __name__ == "__main__":
    grid = Grid(batch=1, heads=1, queries=8, keys=8)
    halves = Documents(torch.tensor([0, 0, 0, 0, 0, 1, 1, 1]))
    for mask in (Causal(), Window(2, 1), Padding(torch.tensor([6])), halves, Causal() & halves, ~Causal()):
        print(mask)
        for row in mask.keep(grid.whole(), torch.device("cpu")).expand(grid.shape)[0, 0]:
            print("   ", " ".join("●" if kept else "·" for kept in row))
