"""Statistics of attention weights, computed by torch operations from one block of queries after the other.

Each block of weights is computed once, and all statistics are updated from it. Sums over queries are accumulated in
float64 (float32 on devices without float64) in a fixed order.
"""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.ask import Ask, Reduce, Summary, Top
from regard.attention.grid.grid import Grid, as_indices
from regard.attention.precision import widest_type
from regard.attention.strongest import strongest_first
from regard.attention.weights import Block


@runtime_checkable
class Statistic(Protocol):
    """A statistic of the attention weights that is accumulated over blocks of queries."""

    def add(self, block: Block) -> None:
        """Add the weights of a block of queries to the statistic; the blocks come in the order of their queries."""

    def value(self) -> Tensor | Top:
        """Return the statistic of all blocks added so far."""


def gather(blocks: Iterable[Block], statistics: Iterable[Statistic]) -> None:
    """Add each block of weights to each statistic; the blocks are computed only once."""
    statistics = list(statistics)
    for block in blocks:
        for statistic in statistics:
            statistic.add(block)


class Received:
    """The `Statistic` that is, for each key, the sum of its weights over all queries.

    Args:
        like: a tensor with the data type and device of the weights.
    """

    def __init__(self, grid: Grid, like: Tensor) -> None:
        self._like = like
        self._sum = like.new_zeros(grid.batch, grid.heads, grid.keys, dtype=widest_type(like.device))

    def add(self, block: Block) -> None:
        self._sum = self._sum + block.weights.sum(dim=2, dtype=self._sum.dtype)

    def value(self) -> Float[Tensor, "batch heads keys"]:
        return self._sum.to(self._like.dtype)


class Entropy:
    """The `Statistic` that is the entropy of each query's weights, in nats."""

    def __init__(self, grid: Grid, like: Tensor) -> None:
        self._values = [like.new_zeros(*grid.shape[:2], 0)]

    def add(self, block: Block) -> None:
        self._values.append(-torch.xlogy(block.weights, block.weights).sum(dim=-1))

    def value(self) -> Float[Tensor, "batch heads queries"]:
        return torch.cat(self._values, dim=2).clamp_min(0.0)


class Distance:
    """The `Statistic` that is each query's mean distance to the keys in tokens, weighted by the attention weights."""

    def __init__(self, grid: Grid, like: Tensor) -> None:
        self._values = [like.new_zeros(*grid.shape[:2], 0)]

    def add(self, block: Block) -> None:
        device = block.weights.device
        own = block.tile.along(2, device) + block.tile.grid.offset
        far = (block.tile.along(3, device) - own).abs().to(block.weights)
        total = block.weights.sum(dim=-1)
        self._values.append((block.weights * far).sum(dim=-1) / total.masked_fill(total == 0, 1.0))

    def value(self) -> Float[Tensor, "batch heads queries"]:
        return torch.cat(self._values, dim=2)


class WeightOnKey:
    """The `Statistic` that is each query's weight on one key; 0 where that key does not exist.

    Args:
        key: the index of the key, the same for all queries.
        after: used if `key` is None: the key's position minus the query's position; -1 = the key just before the query.
    """

    def __init__(self, grid: Grid, like: Tensor, *, after: int = 0, key: int | None = None) -> None:
        self._values, self._after, self._key = [like.new_zeros(*grid.shape[:2], 0)], after, key

    def add(self, block: Block) -> None:
        queries, n_keys = as_indices(block.tile.queries, block.weights.device), block.weights.shape[-1]
        keys = queries + block.tile.grid.offset + self._after if self._key is None else queries * 0 + self._key
        exists = (keys >= 0) & (keys < n_keys)
        weights = block.weights if n_keys else F.pad(block.weights, (0, 1))
        picked = weights.gather(3, keys.clamp(0, weights.shape[3] - 1).expand(*weights.shape[:2], -1)[..., None])
        self._values.append(picked[..., 0].where(exists, 0.0))

    def value(self) -> Float[Tensor, "batch heads queries"]:
        return torch.cat(self._values, dim=2)


class WeightOnGroups:
    """The `Statistic` that is, for each query, the sum of its weights on each group of keys."""

    def __init__(self, grid: Grid, like: Tensor, groups: Bool[Tensor, "groups keys"]) -> None:
        self._groups = groups.to(like).mT
        self._values = [like.new_zeros(*grid.shape[:2], 0, len(groups))]

    def add(self, block: Block) -> None:
        self._values.append(block.weights @ self._groups.to(block.weights))

    def value(self) -> Float[Tensor, "batch heads queries groups"]:
        return torch.cat(self._values, dim=2)


class TopKeys:
    """The `Statistic` that is, for each query, the n keys with the largest weights.

    If a query may attend to fewer than n keys, the remaining entries have key index -1 and weight 0.
    """

    def __init__(self, grid: Grid, like: Tensor, n: int) -> None:
        self._weights = [like.new_zeros(*grid.shape[:2], 0, n)]
        self._keys = [self._weights[0].long()]
        self._n = n

    def add(self, block: Block) -> None:
        weights = block.weights if block.keep is None else block.weights.masked_fill(~block.keep, -torch.inf)
        strongest, keys = strongest_first(weights, self._n)
        barred = strongest == -torch.inf
        self._weights.append(strongest.masked_fill(barred, 0.0))
        self._keys.append(keys.masked_fill(barred, -1))

    def value(self) -> Top:
        return Top(torch.cat(self._weights, dim=2), torch.cat(self._keys, dim=2))


class Pooled:
    """The `Statistic` that is the pooled map: the mean, sum or maximum of the weights in each block of queries × keys.

    Query i belongs to row i · rows // queries, and key j to column j · columns // keys.
    """

    def __init__(self, grid: Grid, like: Tensor, rows: int, columns: int, reduce: Reduce = "mean") -> None:
        self._least = -torch.inf if reduce == "max" else 0.0
        cells = grid.batch, grid.heads, rows, columns
        self._map = like.new_full(cells, self._least, dtype=widest_type(like.device))
        self._reduce = reduce
        self._row = torch.arange(grid.queries, device=like.device) * rows // grid.queries
        self._column = torch.arange(grid.keys, device=like.device) * columns // grid.keys
        self._dtype = like.dtype

    def add(self, block: Block) -> None:
        rows = self._row[as_indices(block.tile.queries, self._row.device)]
        weights = block.weights.to(self._map.dtype)
        narrow = weights.new_full((*weights.shape[:3], self._map.shape[3]), self._least)
        if self._reduce == "max":
            narrow = narrow.scatter_reduce(3, self._column.expand_as(weights), weights, "amax")
            self._map = self._map.scatter_reduce(2, rows[:, None].expand_as(narrow), narrow, "amax")
        else:
            self._map = self._map.index_add(2, rows, narrow.index_add(3, self._column, weights))

    def value(self) -> Float[Tensor, "batch heads rows columns"]:
        if self._reduce == "mean":
            cells = self._row.bincount()[:, None] * self._column.bincount()[None, :]
            return (self._map / cells).to(self._dtype)
        return self._map.to(self._dtype)


def gather_statistics(blocks: Iterable[Block], grid: Grid, like: Tensor, ask: Ask) -> Summary:
    """Return the statistics that `ask` requests, computed from all blocks of weights, each of which is read once.

    Args:
        blocks: the weights of all queries, in order, each block over all keys.
        like: any tensor with the data type and device of the weights.
    """
    optional: dict[str, Statistic | None] = {
        "received": Received(grid, like) if ask.received else None,
        "entropy": Entropy(grid, like) if ask.entropy else None,
        "distance": Distance(grid, like) if ask.distance else None,
        "first": WeightOnKey(grid, like, key=0) if ask.first else None,
        "own": WeightOnKey(grid, like) if ask.own else None,
        "previous": WeightOnKey(grid, like, after=-1) if ask.previous else None,
        "groups": WeightOnGroups(grid, like, ask.groups) if ask.groups is not None else None,
        "top": TopKeys(grid, like, ask.top) if ask.top is not None else None,
        "pooled": Pooled(grid, like, *ask.pooled, ask.reduce) if ask.pooled is not None else None,
    }
    statistics = {name: statistic for name, statistic in optional.items() if statistic is not None}
    gather(blocks, statistics.values())
    return Summary(ask=ask, **{name: statistic.value() for name, statistic in statistics.items()})  # type: ignore[arg-type]
