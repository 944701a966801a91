"""The attention weights of a `Call`, and products with them, computed for one block of queries at a time.

Memory therefore grows linearly with the number of tokens. A backward pass recomputes each block instead of storing it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.gradients import checkpointed
from regard.attention.grid.grid import Indices, Tile, all_indices, as_indices, entries_at, is_symbolic
from regard.attention.overflow import are_finite
from regard.attention.precision import widest_type, without_autocast
from regard.attention.progress import ProgressCallback

BLOCK_WEIGHTS = 2**22
"""The largest number of weights in a block of queries: 16 MiB of float32. A block of one query may have more."""

Weights = Float[Tensor, "batch heads queries keys"]
BoolMask = Bool[Tensor, "#batch #heads #queries #keys"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The computed attention weights of some queries on all keys.

    Attributes:
        keep: the mask, True = may attend; None = every query may attend to every key.
    """

    tile: Tile
    weights: Weights
    keep: BoolMask


def scores_of(call: Call, tile: Tile) -> Weights:
    """Return the scores of a tile (block of the attention weights) before the mask, scaled and with the bias added."""
    call.check_tensors_unchanged()
    query, key = vectors_of(call, call.query, tile, tile.queries), vectors_of(call, call.key, tile, tile.keys)
    with without_autocast(call.device):
        if call.needs_gradients and not are_finite(key):
            scores = scores_of_finite_keys(call, query, key, tile)
        else:
            scores = call.score(query, key, tile)
        return numbers_of_tile(scores, tile, call.score, query.dtype)


def scores_of_finite_keys(
    call: Call,
    query: Float[Tensor, "batch heads queries d_query"],
    key: Float[Tensor, "batch heads keys d_key"],
    tile: Tile,
) -> Weights:
    """Return the scores of some queries and keys, without a gradient for keys that contain NaN or infinity.

    The backward pass multiplies a key by the gradient of its scores, which is 0 for a masked key, and 0 · NaN = NaN.
    """
    not_finite = ~key.isfinite().all(dim=-1)
    with torch.no_grad():
        without_gradient = call.score(query, key, tile)
    with_gradient = call.score(query, key.masked_fill(not_finite[..., None], 0), tile)
    return torch.where(not_finite[:, :, None], without_gradient, with_gradient)


def numbers_of_tile(numbers: Tensor, tile: Tile, source: object, dtype: torch.dtype) -> Weights:
    """Return the scores or weights that `source` computed for a tile, in the data type `dtype`.

    Raises:
        ValueError: their shape is not that of the tile; the message names the class of `source`.
    """
    if numbers.shape != tile.shape:
        raise ValueError(
            f"{type(source).__name__} returned a tensor of shape {list(numbers.shape)} for a tile of shape "
            f"{list(tile.shape)} (batch, heads, queries, keys); it must have this shape."
        )
    return numbers.to(dtype)


def weights_and_keep(call: Call, tile: Tile) -> tuple[Weights, BoolMask]:
    """Return the attention weights and the mask (None = True everywhere) of `tile`, a block of queries × all keys."""
    keep = call.keep(tile)
    with without_autocast(call.device):
        if not call.normalise.across_heads:
            weights = call.normalise(scores_of(call, tile), keep, tile)
            return numbers_of_tile(weights, tile, call.normalise, call.weights_dtype), keep
        all_heads = tile.part(heads=range(call.grid.heads))
        weights = call.normalise(scores_of(call, all_heads), call.keep(all_heads), all_heads)
        weights = numbers_of_tile(weights, all_heads, call.normalise, call.weights_dtype)
        return entries_at(weights, 1, tile.heads), keep


def weights_of(call: Call, tile: Tile) -> Weights:
    """Return the attention weights of some queries on some keys; each query's weights are normalised over all keys."""

    def block_weights(block: Tile) -> Float[Tensor, "batch heads block keys"]:
        return entries_at(weights_and_keep(call, block)[0], 3, tile.keys)

    blocks = [checkpointed(block_weights, block, reads=call.tensors) for block in block_tiles(call, tile)]
    return torch.cat(blocks, dim=2)


def context_of(
    call: Call, dropout: float, value: Float[Tensor, "value_batch value_heads keys d"] | None = None
) -> Float[Tensor, "batch heads queries d"]:
    """Return weights @ value, computed for one block of queries at a time: the backend `tiled`.

    Args:
        value: a vector for each key; None = the values of the call.
    """
    value = call.value if value is None else value
    is_finite = are_finite(value)

    def block_context(tile: Tile, value: Tensor) -> Float[Tensor, "batch heads block d"]:
        weights, keep = weights_and_keep(call, tile)
        weights, values = F.dropout(weights, dropout), vectors_of(call, value, tile, tile.keys).to(weights)
        with without_autocast(call.device):
            # masked keys have weight 0, so the mask is needed only for values of NaN or infinity
            return weighted_sum(weights, None if is_finite else keep, values).to(value.dtype)

    tiles = block_tiles(call, call.grid.whole())
    blocks = [checkpointed(block_context, tile, value, reads=call.tensors, draws=dropout > 0) for tile in tiles]
    return torch.cat(blocks, dim=2)


def weighted_sum(
    weights: Weights, keep: BoolMask, value: Float[Tensor, "batch heads keys d"]
) -> Float[Tensor, "batch heads queries d"]:
    """Return weights @ value; NaN and infinity in the values of masked keys (`keep` is False) have no effect."""
    if keep is None:
        return weights @ value
    allowed = keep.to(weights).expand_as(weights)  # 1 or 0
    context = weights.masked_fill(~keep, 0) @ value.where(value.isfinite(), 0)  # masked weights get no gradient
    for number, is_number in (
        (math.nan, value.isnan()),
        (math.inf, value == math.inf),
        (-math.inf, value == -math.inf),
    ):  # NaN, ∞ or -∞ is added where the value of an unmasked key contains it
        context = torch.where(allowed @ is_number.to(weights) > 0, context + number, context)
    return context


def sum_over_queries(call: Call, vector: Float[Tensor, "#batch #heads queries"]) -> Float[Tensor, "batch heads keys"]:
    """Return vector @ weights: entry j is the sum over all queries i of vector[i] · weights[i, j]."""

    def block_sum(tile: Tile, vector: Tensor) -> Float[Tensor, "batch heads keys"]:
        weights = weights_and_keep(call, tile)[0]
        rows = entries_at(vector, 2, tile.queries)[:, :, None].to(weights)
        with without_autocast(call.device):
            return (rows @ weights)[:, :, 0]

    grid = call.grid
    total = call.empty().new_zeros(grid.batch, grid.heads, grid.keys, dtype=widest_type(call.device))
    for tile in block_tiles(call, grid.whole()):
        total = total + checkpointed(block_sum, tile, vector, reads=call.tensors)
    return total.to(call.weights_dtype)


def blocks_of(call: Call, report: ProgressCallback | None = None) -> Iterator[Block]:
    n_done = 0
    for tile in block_tiles(call, call.grid.whole()):
        weights, keep = weights_and_keep(call, tile)
        yield Block(tile, weights, keep)
        n_done += tile.shape.numel()
        if report is not None and n_done:  # a call without queries has no weights: nothing is reported
            report(n_done, call.grid.shape.numel())


def block_tiles(call: Call, tile: Tile) -> Iterator[Tile]:
    """Split the queries of a tile into blocks of at most `BLOCK_WEIGHTS` weights each; every block has all keys.

    A block of one query may have more weights. If there are no queries, there is one empty block. If a size is
    symbolic, as in an exported program, there is one block.
    """
    keys = all_indices(call.grid.keys)
    if any(map(is_symbolic, (*tile.shape[:3], call.grid.keys))):
        yield tile.part(keys=keys)
        return
    per_query = max(1, len(tile.batch) * len(tile.heads) * call.grid.keys)
    block_size = max(1, BLOCK_WEIGHTS // per_query)
    for start in range(0, max(1, len(tile.queries)), block_size):
        yield tile.part(queries=tile.queries[start : start + block_size], keys=keys)


def vectors_of(
    call: Call, tensor: Float[Tensor, "any_batch any_heads any d"], tile: Tile, indices: Indices
) -> Float[Tensor, "batch heads indices d"]:
    """Return the vectors of the tokens `indices`, for the batch items and heads of `tile`, in the weights' data type.

    `tensor` contains the queries, the keys, or a vector for each key. A batch of 1 is broadcast. A key head that
    several query heads share is repeated.
    """
    group = call.grid.heads // tensor.shape[1]
    heads = tile.heads if group == 1 else as_indices(tile.heads, tensor.device) // group
    vectors = entries_at(entries_at(tensor, 2, indices), 1, heads)
    is_one_item = tensor.shape[0] == 1
    vectors = vectors.expand(tile.shape[0], -1, -1, -1) if is_one_item else entries_at(vectors, 0, tile.batch)
    return vectors.to(call.weights_dtype)
