"""Statistics gathered with torch's operations, block of queries by block of queries: any normaliser, type and device.

One pass, from the first query to the last, serves every statistic that is asked for. Sums over queries are kept in
float64, where the device has it, and added in a fixed order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.ask import Ask, Reduce, Summary, Top
from regard.attention.grid.grid import Grid, Tile, as_indices
from regard.attention.precision import widest_type

Rows = Float[Tensor, "batch heads queries keys"]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The weights of some queries over all keys, and which keys their mask keeps."""

    tile: Tile
    weights: Rows
    keep: Bool[Tensor, "#batch #heads #queries #keys"] | None


@runtime_checkable
class Statistic(Protocol):
    """Something that can be gathered from a pattern one block after the other."""

    def add(self, block: Block) -> None:
        """Take in the next block of queries."""

    def value(self) -> Tensor | Top:
        """What was gathered."""


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
        self._sum = like.new_zeros(grid.batch, grid.heads, grid.keys, dtype=widest_type(like.device))

    def add(self, block: Block) -> None:
        """Add the weights of the next queries."""
        self._sum = self._sum + block.weights.sum(dim=2, dtype=self._sum.dtype)

    def value(self) -> Float[Tensor, "batch heads keys"]:
        """The sums."""
        return self._sum.to(self._like.dtype)


class Entropy:
    """The entropy in nats of each query's weights."""

    def __init__(self, grid: Grid, like: Tensor) -> None:
        self._values = [like.new_zeros(*grid.shape[:2], 0)]

    def add(self, block: Block) -> None:
        """Add the entropies of the next queries."""
        self._values.append(-torch.xlogy(block.weights, block.weights).sum(dim=-1))

    def value(self) -> Float[Tensor, "batch heads queries"]:
        """The entropies, each at least 0."""
        return torch.cat(self._values, dim=2).clamp_min(0.0)


class Distance:
    """How far, on average, each query's keys are from its own position."""

    def __init__(self, grid: Grid, like: Tensor) -> None:
        self._values = [like.new_zeros(*grid.shape[:2], 0)]

    def add(self, block: Block) -> None:
        """Add the distances of the next queries."""
        device = block.weights.device
        own = block.tile.along(2, device) + block.tile.grid.offset
        far = (block.tile.along(3, device) - own).abs().to(block.weights)
        self._values.append((block.weights * far).sum(dim=-1))

    def value(self) -> Float[Tensor, "batch heads queries"]:
        """The distances, in tokens."""
        return torch.cat(self._values, dim=2)


class On:
    """Each query's weight on the key so many places from its own position, or on one key for all."""

    def __init__(self, grid: Grid, like: Tensor, *, after: int = 0, key: int | None = None) -> None:
        self._values, self._after, self._key = [like.new_zeros(*grid.shape[:2], 0)], after, key

    def add(self, block: Block) -> None:
        """Add the weights of the next queries."""
        queries, n_keys = as_indices(block.tile.queries, block.weights.device), block.weights.shape[-1]
        keys = queries + block.tile.grid.offset + self._after if self._key is None else queries * 0 + self._key
        there = (keys >= 0) & (keys < n_keys)
        some = block.weights if n_keys else F.pad(block.weights, (0, 1))
        picked = some.gather(3, keys.clamp(0, some.shape[3] - 1).expand(*some.shape[:2], -1)[..., None])
        self._values.append(picked[..., 0].where(there, 0.0))

    def value(self) -> Float[Tensor, "batch heads queries"]:
        """The weights; 0 where there is no such key."""
        return torch.cat(self._values, dim=2)


class OnGroups:
    """Each query's weight on groups of keys."""

    def __init__(self, grid: Grid, like: Tensor, groups: Bool[Tensor, "groups keys"]) -> None:
        self._groups = groups.to(like).mT
        self._values = [like.new_zeros(*grid.shape[:2], 0, len(groups))]

    def add(self, block: Block) -> None:
        """Add the sums of the next queries."""
        self._values.append(block.weights @ self._groups.to(block.weights))

    def value(self) -> Float[Tensor, "batch heads queries groups"]:
        """The sums."""
        return torch.cat(self._values, dim=2)


class Strongest:
    """The strongest keys of each query."""

    def __init__(self, grid: Grid, like: Tensor, n: int) -> None:
        self._weights = [like.new_zeros(*grid.shape[:2], 0, n)]
        self._keys = [self._weights[0].long()]
        self._n = n

    def add(self, block: Block) -> None:
        """Add the strongest keys of the next queries."""
        weights = block.weights if block.keep is None else block.weights.masked_fill(~block.keep, -torch.inf)
        strongest, keys = weights.topk(self._n, dim=-1)
        barred = strongest == -torch.inf
        self._weights.append(strongest.masked_fill(barred, 0.0))
        self._keys.append(keys.masked_fill(barred, -1))

    def value(self) -> Top:
        """The weights and the keys."""
        return Top(torch.cat(self._weights, dim=2), torch.cat(self._keys, dim=2))


class Pooled:
    """A map of rows × columns cells over queries × keys; query i falls into row i · rows // queries, keys alike."""

    def __init__(self, grid: Grid, like: Tensor, rows: int, columns: int, reduce: Reduce = "mean") -> None:
        self._least = -torch.inf if reduce == "max" else 0.0
        cells = grid.batch, grid.heads, rows, columns
        self._map = like.new_full(cells, self._least, dtype=widest_type(like.device))
        self._reduce = reduce
        self._row = torch.arange(grid.queries, device=like.device) * rows // grid.queries
        self._column = torch.arange(grid.keys, device=like.device) * columns // grid.keys
        self._dtype = like.dtype

    def add(self, block: Block) -> None:
        """Take the weights of the next queries into their cells."""
        rows = self._row[as_indices(block.tile.queries, self._row.device)]
        weights = block.weights.to(self._map.dtype)
        narrow = weights.new_full((*weights.shape[:3], self._map.shape[3]), self._least)
        if self._reduce == "max":
            narrow = narrow.scatter_reduce(3, self._column.expand_as(weights), weights, "amax")
            self._map = self._map.scatter_reduce(2, rows[:, None].expand_as(narrow), narrow, "amax")
        else:
            self._map = self._map.index_add(2, rows, narrow.index_add(3, self._column, weights))

    def value(self) -> Float[Tensor, "batch heads rows columns"]:
        """The map."""
        if self._reduce == "mean":
            cells = self._row.bincount()[:, None] * self._column.bincount()[None, :]
            return (self._map / cells).to(self._dtype)
        return self._map.to(self._dtype)


def gathered(blocks: Iterable[Block], grid: Grid, like: Tensor, ask: Ask) -> Summary:
    """Everything that is asked for, in one pass over the blocks."""
    asked: dict[str, Statistic | None] = {
        "received": Received(grid, like) if ask.received else None,
        "entropy": Entropy(grid, like) if ask.entropy else None,
        "distance": Distance(grid, like) if ask.distance else None,
        "first": On(grid, like, key=0) if ask.first else None,
        "own": On(grid, like) if ask.own else None,
        "previous": On(grid, like, after=-1) if ask.previous else None,
        "groups": OnGroups(grid, like, ask.groups) if ask.groups is not None else None,
        "top": Strongest(grid, like, ask.top) if ask.top is not None else None,
        "pooled": Pooled(grid, like, *ask.pooled, ask.reduce) if ask.pooled is not None else None,
    }
    wanted = {name: statistic for name, statistic in asked.items() if statistic is not None}
    gather(blocks, wanted.values())
    return Summary(ask=ask, **{name: statistic.value() for name, statistic in wanted.items()})  # type: ignore[arg-type]
