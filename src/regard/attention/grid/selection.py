"""The part of a pattern that an index names: an index as a tensor takes it, turned into a tile of the grid."""

import operator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Positions, Tile

Index = Any
"""Ints, slices, one list (or tensor) of positions, and one `...`; up to four of them, in a tuple or alone."""

AXES = ("batch", "head", "query", "key")


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A tile of the grid, and the axes that an int indexes, which the result does not have."""

    tile: Tile
    dropped: tuple[int, ...]

    @classmethod
    def of(cls, index: Index, grid: Grid) -> "Selection":
        """Return the part of the grid that an index names.

        Raises:
            IndexError: a position outside the grid, or too many of them.
            TypeError: something that names no positions, or more than one list.
        """
        entries = [as_int(entry) for entry in complete(index if isinstance(index, tuple) else (index,))]
        if sum(not isinstance(entry, int | slice) for entry in entries) > 1:
            raise TypeError(
                f"a pattern takes one list of positions in an index, not several ({index!r}); "
                "use slices for the other axes, or index pattern.dense()."
            )
        positions = [place(entry, axis, size) for entry, axis, size in zip(entries, AXES, grid.shape, strict=True)]
        dropped = tuple(axis for axis, entry in enumerate(entries) if isinstance(entry, int))
        return cls(Tile(grid, *positions), dropped)

    def squeezed(self, part: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return a tensor over the tile without the axes that an int indexes."""
        return part.squeeze(self.dropped) if self.dropped else part


def complete(entries: tuple[Any, ...]) -> list[Any]:
    """Return an index of four entries, one for each axis; `...` and missing entries become whole axes."""
    gaps = [position for position, entry in enumerate(entries) if entry is Ellipsis]
    given = len(entries) - len(gaps)
    if given > 4 or len(gaps) > 1:
        raise IndexError(f"a pattern has four axes (batch, head, query, key); got {len(entries)} indices: {entries!r}.")
    gap = gaps[0] if gaps else len(entries)
    return [*entries[:gap], *[slice(None)] * (4 - given), *entries[gap + 1 :]]


def as_int(entry: Any) -> Any:
    """Return an entry as an int if it is an integer tensor without axes or an integer of numpy, else as it is."""
    single = getattr(entry, "ndim", None) == 0 and not isinstance(entry, bool)
    if single and "bool" not in str(entry.dtype) and "float" not in str(entry.dtype):
        return operator.index(entry)
    return entry


def place(entry: Any, axis: str, size: int) -> Positions:
    """Return the positions along one axis that an entry of an index names, counted from 0."""
    entries = torch.as_tensor(entry, device="cpu") if isinstance(entry, list | Tensor) else None
    if isinstance(entry, bool) or (entries is not None and entries.dtype == torch.bool):
        raise TypeError(
            f"a pattern is not indexed by booleans ({axis}={entry!r}); give positions, e.g. flags.nonzero()."
        )
    if isinstance(entry, int):
        return range(inside(entry, axis, size), inside(entry, axis, size) + 1)
    if isinstance(entry, slice):
        positions = range(size)[entry]
        if positions.step < 0:
            raise TypeError(f"a pattern takes slices that go forward; got {entry} for the {axis}.")
        return positions
    if entries is not None and entries.ndim == 1 and not (entries.is_floating_point() and len(entries)):
        found = [inside(position, axis, size) for position in map(int, entries.tolist())]
        return torch.tensor(found, dtype=torch.int64, device="cpu")
    raise TypeError(f"{entry!r} names no {axis}; a pattern takes ints, slices and lists of positions.")


def inside(position: int, axis: str, size: int) -> int:
    """Return a position counted from 0; negative positions count from the end."""
    if not -size <= position < size:
        raise IndexError(f"{axis} {position} is not one of {size}; they are counted from 0 to {size - 1}.")
    return position % size
