"""Statistics of attention weights, computed by torch operations from one block of queries after the other.

Sums over queries are accumulated in float64 (float32 on devices without float64) in a fixed order.
"""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import Ask, Reduce, Summary, Top
from regard.attention.grid.grid import Grid, as_indices
from regard.attention.precision import widest_type
from regard.attention.scores.biases.bias import distances
from regard.attention.strongest import strongest_first
from regard.attention.weights import Block

PerQuery = Float[Tensor, "batch heads queries"]


def gather_statistics(blocks: Iterable[Block], grid: Grid, like: Tensor, ask: Ask) -> Summary:
    """Return the statistics that `ask` requests, computed from all blocks of weights, each of which is read once.

    Args:
        blocks: the weights of all queries, in order, each block over all keys; at least one block.
        like: any tensor with the data type and device of the weights.
    """
    all_per_query: dict[str, Callable[[Block], Tensor]] = {
        "entropy": entropies,
        "distance": mean_distances,
        "first": lambda block: weights_on_keys(block, torch.zeros_like(own_positions(block))),
        "own": lambda block: weights_on_keys(block, own_positions(block)),
        "previous": lambda block: weights_on_keys(block, own_positions(block) - 1),
    }
    per_query = {name: statistic for name, statistic in all_per_query.items() if getattr(ask, name)}
    if ask.groups is not None:
        groups = ask.groups.to(like).mT
        per_query["groups"] = lambda block: block.weights @ groups
    numbers_of_blocks: dict[str, list[Tensor]] = {name: [] for name in per_query}
    top_of_blocks = []
    received = like.new_zeros(grid.batch, grid.heads, grid.keys, dtype=widest_type(like.device))
    pooled = None if ask.pooled is None else Pooled(grid, like, *ask.pooled, ask.reduce)
    for block in blocks:
        for name, statistic in per_query.items():
            numbers_of_blocks[name].append(statistic(block))
        if ask.top is not None:
            top_of_blocks.append(top_keys(block, ask.top))
        if ask.received:
            received = received + block.weights.sum(dim=2, dtype=received.dtype)  # not +=, for autograd and torch.func
        if pooled is not None:
            pooled.add(block)
    top = None
    if top_of_blocks:
        weights, keys = (torch.cat(tensors, dim=2) for tensors in zip(*top_of_blocks, strict=True))
        top = Top(weights, keys)
    return Summary(
        ask=ask,
        received=received.to(like.dtype) if ask.received else None,
        top=top,
        pooled=None if pooled is None else pooled.value(),
        **{name: torch.cat(numbers, dim=2) for name, numbers in numbers_of_blocks.items()},
    )


def entropies(block: Block) -> PerQuery:
    """Return the entropy of each query's weights, in nats; below 0 only if a normaliser gave weights above 1."""
    positive = block.weights.masked_fill(block.weights == 0, 1.0)  # the gradient of log(0) would be NaN
    entropy = -torch.xlogy(block.weights, positive).sum(dim=-1)
    # rounding can give a weight slightly above 1, and so an entropy slightly below 0
    largest_error = 64 * torch.finfo(entropy.dtype).eps
    return torch.where(entropy > -largest_error, entropy.clamp_min(0.0), entropy)


def mean_distances(block: Block) -> PerQuery:
    """Return the mean distance in tokens from each query to the keys, weighted by attention; 0 if all weights are 0."""
    distance = distances(block.tile, block.weights.device).abs().to(block.weights)
    total = block.weights.sum(dim=-1)
    return (block.weights * distance).sum(dim=-1) / total.masked_fill(total == 0, 1.0)


def own_positions(block: Block) -> Int[Tensor, " queries"]:
    """Return each query's position among the keys; the queries are the last tokens of the sequence."""
    return block.tile.query_positions(block.weights.device).flatten()


def weights_on_keys(block: Block, keys: Int[Tensor, " queries"]) -> PerQuery:
    """Return the weight of each query on the key whose index is in `keys`; 0 if no key has this index."""
    n_keys = block.weights.shape[-1]
    weights = block.weights if n_keys else F.pad(block.weights, (0, 1))  # gather needs at least one key
    exists = (keys >= 0) & (keys < n_keys)
    indices = keys.clamp(0, weights.shape[3] - 1).expand(*weights.shape[:2], -1)[..., None]
    return weights.gather(3, indices)[..., 0].where(exists, 0.0)


def top_keys(
    block: Block, n: int
) -> tuple[Float[Tensor, "batch heads queries n"], Int[Tensor, "batch heads queries n"]]:
    """Return the n largest weights of each query, and the indices of their keys.

    If a query may attend to fewer than n keys, the remaining entries have weight 0 and key index -1.
    """
    weights = block.weights if block.keep is None else block.weights.masked_fill(~block.keep, -torch.inf)
    if n > weights.shape[-1]:
        weights = F.pad(weights, (0, n - weights.shape[-1]), value=-torch.inf)
    strongest, keys = strongest_first(weights, n)
    masked = strongest == -torch.inf
    return strongest.masked_fill(masked, 0.0), keys.masked_fill(masked, -1)


class Pooled:
    """The pooled map of each head: the matrix of attention weights, made smaller.

    Each cell of the map is the mean, sum or maximum (`reduce`) of the weights in a block of queries × keys. The weight
    of query i on key j belongs to the cell in row i · rows // queries and column j · columns // keys.

    Args:
        like: any tensor with the data type and device of the weights.
        rows, columns: the size of the map.
    """

    def __init__(self, grid: Grid, like: Tensor, rows: int, columns: int, reduce: Reduce = "mean") -> None:
        self._initial = -torch.inf if reduce == "max" else 0.0
        shape = grid.batch, grid.heads, rows, columns
        self._map = like.new_full(shape, self._initial, dtype=widest_type(like.device))
        self._reduce = reduce
        self._row = torch.arange(grid.queries, device=like.device) * rows // grid.queries
        self._column = torch.arange(grid.keys, device=like.device) * columns // grid.keys
        self._dtype = like.dtype

    def add(self, block: Block) -> None:
        rows = self._row[as_indices(block.tile.queries, self._row.device)]
        weights = block.weights.to(self._map.dtype)
        # first the keys are pooled to columns, then the queries to rows
        columns = weights.new_full((*weights.shape[:3], self._map.shape[3]), self._initial)
        if self._reduce == "max":
            columns = columns.scatter_reduce(3, self._column.expand_as(weights), weights, "amax")
            self._map = self._map.scatter_reduce(2, rows[:, None].expand_as(columns), columns, "amax")
        else:
            self._map = self._map.index_add(2, rows, columns.index_add(3, self._column, weights))

    def value(self) -> Float[Tensor, "batch heads rows columns"]:
        if self._reduce == "mean":
            cells = self._row.bincount()[:, None] * self._column.bincount()[None, :]
            return (self._map / cells).to(self._dtype)
        return self._map.to(self._dtype)
