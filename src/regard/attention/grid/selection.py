"""Indices of patterns, such as `pattern[0, :, -1]`, and the tiles (blocks of weights) that they select."""

import operator
import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Indices, Tile, is_integer

Index = Any
"""An int, a slice, `...`, a list or 1-D tensor of positions; or a tuple of these with at most one list or tensor."""

AXES = ("batch", "head", "query", "key")


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The tile (block of the attention weights) that an index of a pattern selects.

    Attributes:
        dropped: the axes that are indexed by an int; they are removed from the result, as in PyTorch.
    """

    tile: Tile
    dropped: tuple[int, ...]

    @classmethod
    def of(cls, index: Index, grid: Grid) -> "Selection":
        index_entries = one_entry_per_axis(index if isinstance(index, tuple) else (index,))
        entries = [operator.index(entry) if is_integer(entry) else entry for entry in index_entries]
        list_axes = [axis for entry, axis in zip(entries, AXES, strict=True) if not isinstance(entry, int | slice)]
        if len(list_axes) > 1:
            raise TypeError(
                f"a pattern takes one list of positions in an index, not several ({', '.join(list_axes)}); "
                "use slices for the other axes, or index pattern.dense()."
            )
        axes = zip(entries, AXES, grid.shape, strict=True)
        indices = [selected_indices(entry, axis, size) for entry, axis, size in axes]
        dropped = tuple(axis for axis, entry in enumerate(entries) if isinstance(entry, int))
        return cls(Tile(grid, *indices), dropped)

    def squeezed(self, part: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Remove the axes that were indexed by an int (`dropped`) from the weights or scores of a tile."""
        return part.squeeze(self.dropped) if self.dropped else part


def one_entry_per_axis(entries: tuple[Any, ...]) -> list[Any]:
    """Return the entries of an index, one for each of the four axes; full slices replace `...` and missing entries."""
    ellipses = [position for position, entry in enumerate(entries) if entry is Ellipsis]
    n_given = len(entries) - len(ellipses)
    if n_given > 4 or len(ellipses) > 1:
        raise IndexError(f"a pattern has four axes (batch, head, query, key); got {len(entries)} indices.")
    gap = ellipses[0] if ellipses else len(entries)
    missing_entries = [slice(None)] * (4 - n_given)
    return [*entries[:gap], *missing_entries, *entries[gap + 1 :]]


def selected_indices(entry: Any, axis: str, size: int) -> Indices:
    """Return the indices that an int, a slice or a list selects along an axis of length `size`, counted from 0."""
    is_list = isinstance(entry, list | range | np.ndarray | Tensor)
    entries = torch.as_tensor(entry, device="cpu") if is_list else None
    if isinstance(entry, bool) or (entries is not None and entries.dtype == torch.bool):
        raise TypeError(
            f"a pattern is not indexed by booleans; the {axis} index is {index_label(entry)}. Give positions, "
            "e.g. flags.nonzero().flatten()."
        )
    if isinstance(entry, int):
        position = counted_from_start(entry, axis, size)
        return range(position, position + 1)
    if isinstance(entry, slice):
        indices = range(size)[entry]
        if indices.step < 0:
            raise TypeError(f"a pattern takes slices with a positive step; got {entry} for the {axis}.")
        return indices
    is_empty_list = entries is not None and entries.shape == (0,)  # torch converts it to a tensor of floats
    if entries is not None and entries.ndim == 1 and (is_empty_list or not entries.is_floating_point()):
        counted = [counted_from_start(position, axis, size) for position in entries.tolist()]
        return torch.tensor(counted, dtype=torch.int64, device="cpu")
    raise TypeError(f"{index_label(entry)} is not a {axis} index; a pattern takes ints, slices and lists of positions.")


def index_label(entry: Any) -> str:
    if isinstance(entry, np.ndarray | Tensor) and entry.ndim:
        dtype = str(entry.dtype).removeprefix("torch.")
        return f"<{dtype} {list(entry.shape)}>"
    return reprlib.repr(entry)


def counted_from_start(position: int, axis: str, size: int) -> int:
    """Convert a negative index to the index counted from 0: -1 becomes size - 1."""
    if not -size <= position < size:
        raise IndexError(f"{axis} {position} is out of bounds: there are {size}, counted from 0 to {size - 1}.")
    return position % size
