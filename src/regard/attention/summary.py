"""Statistics of a pattern, gathered block of queries by block of queries, so that the matrix never exists.

    received    Σ over queries of the weights: how much attention each key gets
    entropy     -Σ weights · log(weights): 0 for a query that looks at one key, log(keys) for one that looks at all
    top         the strongest keys of each query
    pooled      the pattern as a small map: mean, largest or sum over blocks of queries × keys

One pass serves every statistic that is asked for. Sums over queries are kept in float64 and added in a fixed order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.grid import Grid, Tile, numbers

Reduce = Literal["mean", "max", "sum"]
Rows = Float[Tensor, "batch heads queries keys"]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The weights of some queries over all keys, and which keys their mask keeps."""

    tile: Tile
    weights: Rows
    keep: Bool[Tensor, "#batch #heads #queries #keys"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Top:
    """The strongest keys of each query, strongest first; where fewer are visible, weight 0 and key -1."""

    weights: Float[Tensor, "batch heads queries n"]
    keys: Int[Tensor, "batch heads queries n"]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The statistics that were asked for; None for the others."""

    received: Float[Tensor, "batch heads keys"] | None = None
    entropy: Float[Tensor, "batch heads queries"] | None = None
    top: Top | None = None
    pooled: Float[Tensor, "batch heads rows columns"] | None = None


@runtime_checkable
class Statistic(Protocol):
    """Something that can be gathered from a pattern one block after the other."""

    def add(self, block: Block) -> None:
        """Take in the next block of queries."""


def gather(blocks: Iterable[Block], statistics: Iterable[Statistic]) -> None:
    """One pass over the blocks for all statistics."""
    statistics = list(statistics)
    for block in blocks:
        for statistic in statistics:
            statistic.add(block)


class Received:
    """Column sums: the attention that each key gets from all queries."""

    def __init__(self, grid: Grid, like: Tensor) -> None:
        self._like = like
        self._sum = like.new_zeros(grid.batch, grid.heads, grid.keys, dtype=torch.float64)

    def add(self, block: Block) -> None:
        """Add the weights of the next queries."""
        self._sum += block.weights.sum(dim=2, dtype=torch.float64)

    def value(self) -> Float[Tensor, "batch heads keys"]:
        """The sums."""
        return self._sum.to(self._like.dtype)


class Entropy:
    """The entropy in nats of each query's weights."""

    def __init__(self, grid: Grid, like: Tensor) -> None:
        self._value = like.new_zeros(grid.shape[:3])

    def add(self, block: Block) -> None:
        """Set the entropies of the next queries."""
        queries = numbers(block.tile.queries, self._value.device)
        self._value[:, :, queries] = -torch.xlogy(block.weights, block.weights).sum(dim=-1)

    def value(self) -> Float[Tensor, "batch heads queries"]:
        """The entropies, each at least 0."""
        return self._value.clamp_min(0.0)


class Strongest:
    """The strongest keys of each query."""

    def __init__(self, grid: Grid, like: Tensor, n: int) -> None:
        if not 1 <= n <= grid.keys:
            raise ValueError(f"top={n} of {grid.keys} keys; ask for 1 to {grid.keys}.")
        self._weights = like.new_zeros(*grid.shape[:3], n)
        self._keys = torch.full_like(self._weights, -1, dtype=torch.int64)
        self._n = n

    def add(self, block: Block) -> None:
        """Set the strongest keys of the next queries."""
        queries = numbers(block.tile.queries, self._weights.device)
        weights = block.weights if block.keep is None else block.weights.masked_fill(~block.keep, -1.0)
        strongest, keys = weights.topk(self._n, dim=-1)
        self._weights[:, :, queries] = strongest.clamp_min(0.0)
        self._keys[:, :, queries] = keys.masked_fill(strongest < 0, -1)

    def value(self) -> Top:
        """The weights and the keys."""
        return Top(self._weights, self._keys)


class Pooled:
    """A map of rows × columns cells over queries × keys; query i falls into row i · rows // queries, keys alike."""

    def __init__(self, grid: Grid, like: Tensor, rows: int, columns: int, reduce: Reduce = "mean") -> None:
        if not (1 <= rows <= grid.queries and 1 <= columns <= grid.keys):
            raise ValueError(
                f"a map of {rows} x {columns} cells does not fit over {grid.queries} queries x {grid.keys} keys; "
                f"ask for at most {grid.queries} x {grid.keys}."
            )
        self._map = like.new_zeros(grid.batch, grid.heads, rows, columns, dtype=torch.float64)
        self._reduce = reduce
        self._row = torch.arange(grid.queries, device=like.device) * rows // grid.queries
        self._column = torch.arange(grid.keys, device=like.device) * columns // grid.keys
        self._dtype = like.dtype

    def add(self, block: Block) -> None:
        """Take the weights of the next queries into their cells."""
        rows = self._row[numbers(block.tile.queries, self._row.device)]
        weights = block.weights.double()
        narrow = weights.new_zeros(*weights.shape[:3], self._map.shape[3])
        if self._reduce == "max":
            narrow.scatter_reduce_(3, self._column.expand_as(weights), weights, "amax")
            self._map.scatter_reduce_(2, rows[:, None].expand_as(narrow), narrow, "amax")
        else:
            narrow.index_add_(3, self._column, weights)
            self._map.index_add_(2, rows, narrow)

    def value(self) -> Float[Tensor, "batch heads rows columns"]:
        """The map."""
        if self._reduce == "mean":
            cells = self._row.bincount()[:, None] * self._column.bincount()[None, :]
            return (self._map / cells).to(self._dtype)
        return self._map.to(self._dtype)
