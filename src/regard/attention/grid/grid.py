"""The grid batch × heads × queries × keys of the attention weights, and its tiles.

Scores, masks and biases are computed for one tile at a time, so that the whole matrix of weights is never stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Indices = range | Int[Tensor, " _"]
"""Indices along one axis: a range, which selects a view of a tensor, or an index tensor, which selects a copy."""

Positions = Int[Tensor, "#batch #heads #queries #keys"] | Int[Tensor, ""]
"""The position of each query, or of each key, of a tile; for FlexAttention, the position of one query or key."""


class Grid(NamedTuple):
    """The shape of the attention weights: the numbers of batch items, heads, queries and keys."""

    batch: int
    heads: int
    queries: int
    keys: int

    @property
    def shape(self) -> torch.Size:
        """The shape of the attention weights: [batch heads queries keys]."""
        return torch.Size((self.batch, self.heads, self.queries, self.keys))

    @property
    def offset(self) -> int:
        """The position of query 0 among the keys: keys - queries, since the queries are the last tokens."""
        return self.keys - self.queries

    def first_position(self, offset: int | None) -> int:
        """Return the key position of query 0: the argument `offset` of a mask or bias, or keys - queries if it is None.

        >>> Grid(batch=1, heads=1, queries=3, keys=11).first_position(None)
        8
        """
        return self.offset if offset is None else offset

    def admits(self, tensor: Tensor) -> bool:
        """Return whether a tensor can be broadcast to [batch heads queries keys]."""
        last_axes = zip(reversed(tensor.shape), reversed(self.shape), strict=False)
        return tensor.ndim <= 4 and all(size in (1, grid_size) for size, grid_size in last_axes)

    def whole(self) -> "Tile":
        """Return the tile that contains all batch items, heads, queries and keys of the grid."""
        return Tile(self, *map(all_indices, (self.batch, self.heads, self.queries, self.keys)))

    def __str__(self) -> str:
        return f"batch={self.batch}, heads={self.heads}, queries={self.queries}, keys={self.keys}"


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A block of the attention weights: the indices of some batch items, heads, queries and keys of the grid."""

    grid: Grid
    batch: Indices
    heads: Indices
    queries: Indices
    keys: Indices

    @property
    def axes(self) -> tuple[Indices, Indices, Indices, Indices]:
        return self.batch, self.heads, self.queries, self.keys

    @property
    def shape(self) -> torch.Size:
        return torch.Size([len(axis) if isinstance(axis, range) else axis.shape[0] for axis in self.axes])

    def part(
        self,
        batch: Indices | None = None,
        heads: Indices | None = None,
        queries: Indices | None = None,
        keys: Indices | None = None,
    ) -> "Tile":
        """Return a tile with the given indices of the grid; an axis given as None keeps the indices of this tile."""
        new_axes = batch, heads, queries, keys
        return Tile(self.grid, *(old if new is None else new for old, new in zip(self.axes, new_axes, strict=True)))

    def along(self, axis: int, device: torch.device) -> Int[Tensor, "#batch #heads #queries #keys"]:
        """Return the indices of this tile along an axis, 0 (batch) to 3 (keys), shaped to broadcast to the tile."""
        indices = as_indices(self.axes[axis], device)
        shape = [1, 1, 1, 1]
        shape[axis] = -1
        return indices.reshape(shape)

    def query_positions(self, device: torch.device, offset: int | None = None) -> Positions:
        """Return the position of each query of this tile among the keys, shaped to broadcast to the shape of the tile.

        `offset` is the position of query 0; None = keys - queries, since the queries are the last tokens.
        """
        return self.along(2, device) + self.grid.first_position(offset)

    def key_positions(self, device: torch.device) -> Positions:
        """Return the position of each key of this tile, shaped to broadcast to the shape of the tile."""
        return self.along(3, device)

    def select(self, tensor: Tensor) -> Tensor:
        """Return the part of a tensor that belongs to this tile.

        The tensor broadcasts to [batch heads queries keys]; its axes of size 1 keep size 1.
        """
        tensor = with_four_axes(tensor)
        for axis, indices in enumerate(self.axes):
            if tensor.shape[axis] != 1:
                tensor = entries_at(tensor, axis, indices)
        return tensor

    def check(self, tensor: Tensor, source: object) -> None:
        """Raise ValueError unless a tensor has four axes, and each has size 1 or the size of this tile.

        Args:
            tensor: what a mask or bias computed for this tile.
            source: the mask or bias; the message names its class.
        """
        sizes = zip(tensor.shape, self.shape, strict=False)
        if tensor.ndim != 4 or not all(size == tile_size or size == 1 for size, tile_size in sizes):
            raise ValueError(
                f"{type(source).__name__} returned a tensor of shape {list(tensor.shape)} for a tile of shape "
                f"{list(self.shape)} (batch, heads, queries, keys); it must have these four axes, each of that size or "
                "of size 1. tile.query_positions and tile.key_positions have four axes, and tile.select(tensor) is the "
                "tile's part of a larger tensor."
            )

    def at_queries(self, tensor: Float[Tensor, "_ _ keys"]) -> Float[Tensor, "#batch #heads queries 1"]:
        """Return, for each query of this tile, the entry of a [batch heads keys] tensor at the query's own position.

        The queries are the last tokens: query i is at position i + keys - queries. For a negative position, the entry
        is 0.

        >>> import torch
        >>> Grid(1, 1, 2, 3).whole().at_queries(torch.tensor([[[5.0, 6.0, 7.0]]])).flatten()
        tensor([6., 7.])
        """
        by_key = self.part(keys=all_indices(self.grid.keys)).select(tensor[:, :, None])
        positions = self.query_positions(tensor.device).flatten()
        with_zero = F.pad(
            by_key, (1, 0)
        )  # the entry of position p is at index p + 1; index 0 is for negative positions
        return with_zero.index_select(3, (positions + 1).clamp_min(0)).mT


def with_four_axes(tensor: Tensor) -> Tensor:
    """Insert axes of size 1 in front, so that the tensor has four axes."""
    return tensor[(None,) * (4 - tensor.ndim)]


def is_integer(number: object) -> bool:
    """Return whether an object is an integer: an int but not a bool, a numpy integer, or a 0-dim integer tensor."""
    if isinstance(number, int):
        return not isinstance(number, bool)
    if isinstance(number, Tensor):
        return number.ndim == 0 and not (number.is_floating_point() or number.dtype == torch.bool)
    return hasattr(number, "__index__") and getattr(number, "ndim", 0) == 0


def is_symbolic(length: int) -> bool:
    """Return whether a length is a torch.SymInt, which has no value while torch.export makes a program."""
    return isinstance(length, torch.SymInt)


def all_indices(length: int) -> Indices:
    """Return the indices 0 … length - 1; a tensor if the length is symbolic, since no range can have such a length."""
    return torch.arange(length) if is_symbolic(length) else range(length)


def as_indices(indices: Indices, device: torch.device) -> Int[Tensor, " indices"]:
    if isinstance(indices, range):
        stop = max(indices.start, indices.stop)  # torch.arange refuses a stop below the start
        return torch.arange(indices.start, stop, indices.step, device=device)
    return indices.to(device)


def entries_at(tensor: Tensor, axis: int, indices: Indices) -> Tensor:
    """Return the entries of a tensor at `indices` along one axis: a view for a range, a copy for an index tensor."""
    if isinstance(indices, range):
        index = (slice(None),) * (axis % tensor.ndim) + (slice(indices.start, indices.stop, indices.step),)
        return tensor[index]
    return tensor.index_select(axis, indices.to(tensor.device))


def varies_by_query(tensor: Tensor) -> bool:
    """Return whether a tensor that broadcasts to [batch heads queries keys] has a queries axis larger than 1."""
    return tensor.ndim >= 2 and tensor.shape[-2] != 1


def contiguous_rows(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def spans(length: int, size: int) -> Iterator[range]:
    """Return consecutive ranges of `size` indices, the last one perhaps shorter, that cover 0 … length - 1.

    >>> list(spans(5, 2))
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return (range(start, min(start + size, length)) for start in range(0, length, size))


def divisors(number: int) -> list[int]:
    return [candidate for candidate in range(1, number + 1) if number % candidate == 0]
