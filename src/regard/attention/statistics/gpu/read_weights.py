"""The Triton kernel `read_weights`, which computes sums of attention weights:

    over queries    the attention that each key receives; the pooled map (the weights, in fewer rows and columns)
    over keys       the entropy of each query's weights; their mean distance

    weight_ij = 2^(score_ij - log_sum_i)          log_sum_i = log₂ Σ_j 2^score_ij, from the forward pass

Each program (instance of the kernel) computes a block of keys (a tile), and reads the queries that may attend to these
keys, in order. A row of the pooled map stands for successive queries. For each of its keys and each row, the program
stores the sum of the key's weights over the queries of the row, and if requested their maximum. Afterwards, `pool_keys`
combines the keys of each column of the map. Without a map there is one row: its sums are the received attention.

All programs add to the sums over keys, in any order. Floating-point numbers added in another order give other bits. So
the sums over keys are 64-bit integers, in units of 2^-40: every run gives the same bits.
"""

from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.ask import Ask
from regard.attention.statistics.gpu.arguments import KernelArguments
from regard.attention.statistics.gpu.schedule import along_queries
from regard.attention.statistics.gpu.scores import load_border, load_limits, load_vectors, scores_of, tile_of_program

UNITS = tl.constexpr(2.0**40)
"""A number times this factor is the number in units of 2^-40; in these units, int64 holds numbers of up to 2^23."""


class WeightSums(NamedTuple):
    """The tensors to which the kernel `read_weights` adds sums of weights, all 0 at first; None = not computed."""

    sums: Any = None  # [heads map_rows keys], the sum of each key's weights over the queries of each row of the map
    maxima: Any = None  # [heads map_rows keys], the maximum of the same weights
    entropy: Any = None  # [batch heads queries], Σ weight · log₂ weight over the keys, in units of 2^-40
    distance: Any = None  # [batch heads queries], Σ weight · distance over the keys, in units of 2^-40


def compute_sums(
    arguments: KernelArguments,
    log_sum: Float[Tensor, "batch heads queries"],
    log_share: Float[Tensor, "batch heads queries"] | None,
    results: WeightSums,
    map_rows: int,
    head_numbers: range,
) -> None:
    """Run the Triton kernel `read_weights` for some heads. It adds sums of weights to the tensors of `results`.

    Args:
        log_sum: for each query, log₂ Σ 2^score over the keys, from which the kernel recomputes the weights.
        log_share: log₂ of the sum of each query's weights, which is below 1 if there are sinks; None = the sums are 1.
        map_rows: the number of rows to which the pooled map reduces the queries; 1 if there is no map.
        head_numbers: the numbers of the heads to compute; head h of batch item b has the number b · heads + h.
    """
    n_keys, n_queries = arguments.tile_sizes
    read_weights[(triton.cdiv(arguments.grid.keys, n_keys) * len(head_numbers),)](
        arguments.query,
        arguments.key,
        arguments.mask_ranges(along_queries(arguments.limits, arguments.grid.keys, n_keys)),
        arguments.formula,
        log_sum,
        log_share,
        results,
        arguments.sizes,
        head_numbers.start,
        map_rows,
        ranges=len(arguments.limits),
        short_rows=map_rows * n_queries > arguments.grid.queries,  # queries / map_rows < n_queries
        width=arguments.widths[0],
        n_keys=n_keys,
        n_queries=n_queries,
        num_warps=4,
        num_stages=arguments.stages,
        enable_fp_fusion=True,
    )


@no_type_check
@triton.jit
def read_weights(
    query,
    key,
    mask_ranges,
    formula,
    log_sum,
    log_share,
    results,
    sizes,
    first_head,
    map_rows,
    ranges,
    short_rows: tl.constexpr,
    width: tl.constexpr,
    n_keys: tl.constexpr,
    n_queries: tl.constexpr,
):
    """Triton kernel: each program computes the weights on one block of keys and adds them to sums in `results`.
    Args:
        query, key: `StridedTensor`s. mask_ranges: `MaskRanges`. formula: `ScoreFormula`. sizes: `Sizes`.
        log_sum, log_share: for each query, log₂ Σ 2^score, and log₂ of the sum of its weights (None = the sum is 1).
        results, map_rows: the tensors of sums (`WeightSums`), and the number of rows of the pooled map.
        ranges: the number of key ranges of each query.
        short_rows: whether a row of the pooled map may have fewer queries than a block.
        width: the width of keys, rounded up to a power of 2.
        n_keys, n_queries: the numbers of keys and of queries in a block.
    """
    tile, head_number, batch, head = tile_of_program(first_head, tl.cdiv(sizes.keys, n_keys), sizes.heads)
    query_in_block, key_in_block = tl.arange(0, n_queries), tl.arange(0, n_keys)
    j = tile * n_keys + key_in_block
    key_exists = j < sizes.keys
    keys = tl.trans(
        load_vectors(key, batch, head // sizes.group, tile * n_keys, key_in_block, key_exists, sizes.width, width)
    )
    for n in range(ranges):
        # the row of the first query, the first query after this row, and the row's weights so far
        row = row_of(load_border(mask_ranges, n, batch, head, tile, 0), sizes.queries, map_rows)
        row_end = first_query_of(row + 1, sizes.queries, map_rows)
        total = tl.zeros([n_queries, n_keys], tl.float32)
        largest = tl.zeros([n_queries, n_keys], tl.float32)
        for part in tl.static_range(3):  # part 1 needs no mask (see schedule.py)
            begin = load_border(mask_ranges, n, batch, head, tile, part)
            end = load_border(mask_ranges, n, batch, head, tile, part + 1)
            for first in range(begin, end, n_queries):
                i = first + query_in_block
                query_exists = i < end
                flat_index = head_number * sizes.queries + i
                queries = load_vectors(query, batch, head, first, query_in_block, query_exists, sizes.width, width)
                log_sums = tl.load(log_sum + flat_index, mask=query_exists, other=float("inf"))
                indices = (n, batch, head, i, j, query_exists, key_exists)
                weights, log_weights = weights_of(queries, keys, mask_ranges, formula, log_sums, indices, part != 1)
                if results.entropy is not None:
                    add_units(results.entropy + flat_index, tl.sum(weights * log_weights, axis=1), query_exists)
                if results.distance is not None:
                    distance = tl.sum(weights * distances(i + sizes.offset, j), axis=1)
                    if log_share is not None:  # a mean distance: divided by the sum of the weights
                        distance *= tl.exp2(-tl.load(log_share + flat_index, mask=query_exists, other=0.0))
                    add_units(results.distance + flat_index, distance, query_exists)
                if results.sums is not None:
                    output = (results, head_number - first_head, j, key_exists, sizes.queries, sizes.keys, map_rows)
                    state = (total, largest, weights, row)
                    block_end = tl.minimum(first + n_queries, end)
                    # finish every row that ends in this block of queries; `weights` keeps those of the rows after it
                    if short_rows:
                        for _ in range(row, row_of(block_end, sizes.queries, map_rows)):
                            total, largest, weights, row, row_end = finish_row(output, state, i < row_end)
                            state = (total, largest, weights, row)
                    elif row_end <= block_end:
                        total, largest, weights, row, row_end = finish_row(output, state, i < row_end)
                    total += weights
                    if results.maxima is not None:
                        largest = tl.maximum(largest, weights)
        if results.sums is not None:
            output = (results, head_number - first_head, j, key_exists, sizes.queries, sizes.keys, map_rows)
            no_weights, no_queries = tl.zeros_like(total), query_in_block < 0  # False for every query
            if row < map_rows:  # the last row has not ended yet; all its weights are in `total`
                finish_row(output, (total, largest, no_weights, row), no_queries)


@no_type_check
@triton.jit
def weights_of(queries, keys, mask_ranges, formula, log_sums, indices, masked: tl.constexpr):
    """Return the weights of some queries (rows) on some keys (columns), and their binary logarithms.

    If keys may be masked, each logarithm is at least -1e30, because the product of a weight of 0 and -∞ would be NaN.

    Args:
        log_sums: for each query, log₂ Σ 2^score over its keys.
        indices: a tuple: the index of the key range; the batch item; the head; the indices of queries and of keys;
            whether each query and each key exists (False after the last one).
        masked: whether the mask must be applied.
    """
    n, batch, head, i, j, query_exists, key_exists = indices
    products = tl.dot(queries, keys, input_precision="tf32x3")
    pair_exists = query_exists[:, None] & key_exists[None, :]
    scores = scores_of(products, i[:, None], j[None, :], pair_exists, batch, head, formula, keys.dtype)
    log_weights = scores - log_sums[:, None]
    weights = tl.exp2(log_weights)
    if masked:
        start, stop = load_limits(mask_ranges.limits, n, batch, head, i, query_exists)
        weights = tl.where((j[None, :] >= start[:, None]) & (j[None, :] < stop[:, None]), weights, 0.0)
    if masked or formula.biases is not None:
        log_weights = tl.maximum(log_weights, -1e30)
    return weights, log_weights


@no_type_check
@triton.jit
def distances(positions, j):
    """Return the distance, in tokens, from each query's position to each key j, as float32 (exact up to 2^24)."""
    return tl.abs(j.to(tl.float32)[None, :] - positions.to(tl.float32)[:, None])


@no_type_check
@triton.jit
def finish_row(output, state, in_row):
    """Add the weights of one row of the pooled map to `results` (and update the maxima), and begin the next row.

    Args:
        output: (`results`, a `WeightSums`; index of the head in its tensors; indices of the keys of this block; whether
            each key exists; number of all queries; number of all keys; number of rows of the map).
        state: (sums of the row's weights over earlier blocks of queries, separate for each place in a block; maxima of
            these weights; weights of this block of queries; index of the row).
        in_row: for each query of this block, whether it belongs to the row.

    Returns:
        The four entries of `state` for the next row, and the index of the first query after the next row. In the
        weights of this block, those of the finished row are now 0.
    """
    results, head, j, key_exists, n_all_queries, n_all_keys, map_rows = output
    total, largest, weights, row = state
    row_weights = tl.where(in_row[:, None], weights, 0.0)
    flat_index = (head * map_rows + row) * n_all_keys + j
    sums = tl.load(results.sums + flat_index, mask=key_exists, other=0.0) + tl.sum(total + row_weights, axis=0)
    tl.store(results.sums + flat_index, sums, mask=key_exists)
    if results.maxima is not None:
        earlier_maxima = tl.load(results.maxima + flat_index, mask=key_exists, other=0.0)
        maxima = tl.maximum(earlier_maxima, tl.max(tl.maximum(largest, row_weights), axis=0))
        maxima = tl.where(sums == sums, maxima, sums)  # tl.max ignores NaN; a sum is NaN if a weight is NaN
        tl.store(results.maxima + flat_index, maxima, mask=key_exists)
    zeros = tl.zeros_like(total)
    weights = tl.where(in_row[:, None], 0.0, weights)
    return zeros, zeros, weights, row + 1, first_query_of(row + 2, n_all_queries, map_rows)


@no_type_check
@triton.jit
def add_units(addresses, numbers, exists):
    """Add numbers to sums that are stored as 64-bit integers, in units of 2^-40, where `exists` is True."""
    tl.atomic_add(addresses, (numbers * UNITS).to(tl.int64), mask=exists, sem="relaxed")


@no_type_check
@triton.jit
def row_of(query, n_queries, map_rows):
    """Return the row of the pooled map to which a query belongs; the map has `map_rows` rows for all queries."""
    return (tl.cast(query, tl.int64) * map_rows // n_queries).to(tl.int32)


@no_type_check
@triton.jit
def first_query_of(row, n_queries, map_rows):
    """Return the first query of a row of the pooled map; n_queries for row `map_rows`, which is after the last."""
    return tl.cdiv(tl.cast(row, tl.int64) * n_queries, map_rows).to(tl.int32)


def from_units(
    sums: Tensor, log_sum: Float[Tensor, "batch heads queries"], factor: float = 1.0
) -> Float[Tensor, "batch heads queries"]:
    """Convert sums over keys from units of 2^-40 to float32, times `factor`; NaN for a query whose log-sum is NaN."""
    numbers = (sums.double() * (factor / UNITS.value)).float()
    return numbers.masked_fill(log_sum.isnan(), torch.nan)


def pool_keys(
    by_row: Float[Tensor, "some_heads rows keys"], columns: int, ask: Ask, n_queries: int
) -> Float[Tensor, "some_heads rows columns"]:
    """Combine the keys of each column, and return the pooled map (the weights reduced to rows × columns).

    Args:
        by_row: for each row of the map and each key, the sum (or maximum) of the key's weights on the row's queries.
        columns: the number of columns; key j belongs to column j · columns // keys.
        n_queries: the number of all queries.
    """
    rows, keys = by_row.shape[-2:]
    first_key = starts_of_parts(columns, keys, by_row.device)
    if keys % columns == 0:
        cells = by_row.reshape(*by_row.shape[:-1], columns, -1)
    else:  # the columns have different numbers of keys: shorter ones are filled with 0
        most_keys = -(-keys // columns)  # rounded up
        key = first_key[:-1, None] + torch.arange(most_keys, device=by_row.device)
        is_after_column = key >= first_key[1:, None]
        cells = by_row[..., key.clamp(max=keys - 1)].masked_fill_(is_after_column, 0.0)
    if ask.reduce == "max":
        return cells.amax(dim=-1)
    sums = cells.sum(dim=-1, dtype=torch.float64)
    if ask.reduce == "mean":
        first_query = starts_of_parts(rows, n_queries, by_row.device)
        sums /= first_query.diff()[:, None] * first_key.diff()
    return sums.float()


def starts_of_parts(n_parts: int, n_tokens: int, device: torch.device) -> Int[Tensor, " borders"]:
    """Return the first token of each of `n_parts` nearly equal parts of `n_tokens`, and `n_tokens` at the end.

    Token i belongs to part i · n_parts // n_tokens, so part p starts at p · n_tokens / n_parts, rounded up.
    """
    return -(-torch.arange(n_parts + 1, device=device) * n_tokens // n_parts)
