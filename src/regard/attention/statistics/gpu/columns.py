"""The Triton kernel `columns`: the attention that each key receives, and the pooled map.

    received_j = Σ_i 2^(score_ij - log_sum_i)          log_sum_i = log₂ Σ_j 2^score_ij, from the kernel `rows`

Each program (instance of the kernel) computes a block of keys (a tile), and reads the queries that may attend to the
keys. Only one program adds to each sum, so there are no atomic operations, and every run gives the same bits.

For the pooled map, a program reads the queries of one row of the map after the other, and adds up the weights of its
keys in each cell of this row. The keys of a cell may belong to several tiles; `into_map` adds up the sums of the tiles.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask
from regard.attention.statistics.gpu.arguments import KernelArguments
from regard.attention.statistics.gpu.schedule import along_queries
from regard.attention.statistics.gpu.scores import border, limits_of, scores_of, tile_of_program, vectors


def cells_for(arguments: KernelArguments, shape: tuple[int, int]) -> Float[Tensor, "batch heads rows tiles cells"]:
    """Return an uninitialised tensor to which the kernel `columns` writes the pooled map, before tiles are combined.

    A tile (block of keys) has one number for each row of the map, and for each column that it may overlap.

    Args:
        shape: the numbers of rows and columns of the map.
    """
    (n_keys, _), grid = arguments.tiles, arguments.grid
    tiles, cells = triton.cdiv(grid.keys, n_keys), cells_in_tile(shape[1], grid.keys, n_keys)
    return arguments.sinks.new_empty(grid.batch, grid.heads, shape[0], tiles, cells)


def cells_in_tile(map_columns: int, n_all_keys: int, n_keys: int) -> int:
    """Return how many columns of the pooled map a tile (block of keys) may overlap, rounded up to a power of 2.

    Args:
        map_columns: the number of columns of the map, among which all keys are divided.
        n_all_keys: the number of all keys.
        n_keys: the number of keys in a tile.

    >>> cells_in_tile(64, 4096, 128), cells_in_tile(3, 10_000, 128)
    (4, 2)
    """
    return triton.next_power_of_2(min(map_columns, -(-n_keys * map_columns // n_all_keys) + 1))


def read_columns(
    arguments: KernelArguments,
    ask: Ask,
    log_sum: Float[Tensor, "batch heads queries"],
    received: Float[Tensor, "batch heads keys"] | None,
    cells: Float[Tensor, "batch heads rows tiles cells"] | None,
    items: range,
) -> None:
    """Run the Triton kernel `columns` for some heads; it writes into `received` and `cells`.

    Args:
        log_sum: for each query, log₂ Σ 2^score over the keys, from which the kernel recomputes the weights.
        received: the output for the sum of each key's weights over the queries; None = it is not computed.
        cells: the output for the pooled weights of each tile (block of keys), from `cells_for`; None = no map is
            computed.
        items: the heads to compute: item n is head n % heads of batch item n // heads.
    """
    n_keys, n_queries = arguments.tiles
    programs = triton.cdiv(arguments.grid.keys, n_keys) * len(items)
    columns[(programs,)](
        arguments.query,
        arguments.key,
        arguments.mask_ranges(along_queries(arguments.limits, arguments.grid.keys, n_keys)),
        arguments.rule,
        log_sum,
        received,
        cells,
        arguments.sizes,
        items.start,
        *(ask.pooled or (1, 1)),
        largest=ask.reduce == "max",
        ranges=len(arguments.limits),
        width=arguments.widths[0],
        n_keys=n_keys,
        n_queries=n_queries,
        n_cells=1 if cells is None else cells.shape[4],
        num_warps=8 if n_keys == 128 else 4,
        num_stages=2,
        enable_fp_fusion=True,
    )


@no_type_check
@triton.jit
def columns(
    query,
    key,
    mask_ranges,
    rule,
    log_sum,
    received,
    cells,
    sizes,
    first_item,
    map_rows,
    map_columns,
    largest: tl.constexpr,
    ranges,
    width: tl.constexpr,
    n_keys: tl.constexpr,
    n_queries: tl.constexpr,
    n_cells: tl.constexpr,
):
    """Triton kernel: each program sums the weights on each key of one block of keys, and pools them for the map.

    Args:
        query, key, mask_ranges, rule, sizes: two `StridedTensor`s, a `MaskRanges`, a `Rule` and a `Sizes`.
        log_sum: for each query, log₂ Σ 2^score over the keys.
        received: the output [batch heads keys]; None = not computed.
        cells: the output [batch heads rows tiles n_cells], the map before tiles are combined (see `cells_for`); None =
            not computed.
        first_item: the first head to compute, counted over all batch items.
        largest: whether a cell of the map is the maximum of its weights instead of their sum.
        ranges: the number of key ranges of a query.
        n_keys, n_queries: the number of keys in a block, and of queries that are read at a time.
    """
    tiles = tl.cdiv(sizes.keys, n_keys)
    tile, item, batch, head = tile_of_program(first_item, tiles, sizes.heads)
    number = tl.arange(0, n_keys)
    j = tile * n_keys + number
    there = j < sizes.keys
    keys = vectors(key, batch, head // sizes.group, tile * n_keys, number, there, sizes.width, width)
    cell = j.to(tl.int64) * map_columns // sizes.keys - tile.to(tl.int64) * n_keys * map_columns // sizes.keys
    log_sums = log_sum + item * sizes.queries
    every = tl.zeros([n_keys], tl.float32)
    where = (batch, head, j)
    none = tl.zeros([n_keys, n_queries], tl.float32)
    for row in range(map_rows):
        row_begin, row_end = (
            first_query_of(row, sizes.queries, map_rows),
            first_query_of(row + 1, sizes.queries, map_rows),
        )
        sums = (none, none)
        for n in range(ranges):
            for part in tl.static_range(3):
                begin = tl.maximum(border(mask_ranges, n, batch, head, tile, part), row_begin)
                end = tl.minimum(border(mask_ranges, n, batch, head, tile, part + 1), row_end)
                span = (n, begin, end)
                sums = read_queries(
                    query, keys, mask_ranges, rule, log_sums, sizes, where, span, sums, largest, part != 1
                )
        total, most = sums
        by_key = tl.sum(total, axis=1)
        every += by_key
        if cells is not None:
            inside = there[:, None] & (cell[:, None] == tl.arange(0, n_cells)[None, :])
            to = cells + ((item * map_rows + row) * tiles + tile) * n_cells + tl.arange(0, n_cells)
            of_cell = tl.sum(tl.where(inside, by_key[:, None], 0.0), axis=0)
            if largest:
                most_by_key = tl.max(most, axis=1)
                most_of_cell = tl.max(tl.where(inside, most_by_key[:, None], 0.0), axis=0)
                of_cell = tl.where(of_cell == of_cell, most_of_cell, of_cell)  # tl.max ignores NaN, unlike tl.sum
            tl.store(to, of_cell)
    if received is not None:
        tl.store(received + item * sizes.keys + j, every, mask=there)


@no_type_check
@triton.jit
def first_query_of(row, n_queries, map_rows):
    """Return the first query of a row of the pooled map; query i belongs to row i · map_rows // n_queries."""
    return tl.cdiv(tl.cast(row, tl.int64) * n_queries, map_rows).to(tl.int32)


@no_type_check
@triton.jit
def read_queries(
    query, keys, mask_ranges, rule, log_sums, sizes, where, span, sums, largest: tl.constexpr, masked: tl.constexpr
):
    """Add the weights of some more queries to the running sums (and maxima) of a block of keys; return the new sums.

    Args:
        keys: the key vectors of the block.
        log_sums: for each query, log₂ Σ 2^score over its keys.
        where: the batch item, the head and the indices of the keys.
        span: the index of the key range, the first query to add, and the query after the last.
        sums: for each key, the sums and the maxima so far.
        largest: whether the maxima are needed.
        masked: whether the mask must be applied.
    """
    batch, head, j = where
    n, begin, end = span
    total, most = sums
    number = tl.arange(0, total.shape[1])
    for first in range(begin, end, total.shape[1]):
        i = first + number
        there = i < end
        queries = vectors(query, batch, head, first, number, there, sizes.width, keys.shape[1])
        products = tl.dot(keys, tl.trans(queries), input_precision="tf32x3")
        inside = (j < sizes.keys)[:, None] & there[None, :]
        scores = scores_of(products, i[None, :], j[:, None], inside, batch, head, rule, keys.dtype)
        weights = tl.exp2(scores - tl.load(log_sums + i, mask=there, other=float("inf"))[None, :])
        if masked:
            start, stop = limits_of(mask_ranges, n, batch, head, i, there)
            weights = tl.where((j[:, None] >= start[None, :]) & (j[:, None] < stop[None, :]), weights, 0.0)
        total += weights
        if largest:
            most = tl.maximum(most, weights)
    return total, most


def into_map(
    cells: Float[Tensor, "batch heads rows tiles cells"], arguments: KernelArguments, ask: Ask
) -> Float[Tensor, "batch heads rows columns"]:
    """Return the pooled map, given the pooled weights of each tile (block of keys) as the kernel `columns` wrote them.

    The keys of one column of the map may lie in several tiles; the weights of these tiles are pooled in a fixed order.
    """
    assert ask.pooled is not None
    (rows, columns), (n_keys, _), grid, device = ask.pooled, arguments.tiles, arguments.grid, cells.device
    column = torch.arange(columns + 1, device=device)
    first_key = -(-column * grid.keys // columns)
    first_tile, last_tile = first_key[:-1] // n_keys, (first_key[1:] - 1) // n_keys
    tile = first_tile[:, None] + torch.arange(-(-grid.keys // columns) // n_keys + 2, device=device)
    has_part = tile <= last_tile[:, None]
    tile = tile.clamp(max=cells.shape[3] - 1)
    cell = (column[:-1, None] - tile * n_keys * columns // grid.keys).clamp(0, cells.shape[4] - 1)
    parts = cells[..., tile, cell].masked_fill(~has_part, 0.0)
    if ask.reduce == "max":
        return parts.amax(dim=-1)
    sums = parts.sum(dim=-1, dtype=torch.float64)
    if ask.reduce == "mean":
        first_query = -(-torch.arange(rows + 1, device=device) * grid.queries // rows)
        sums /= first_query.diff()[:, None] * first_key.diff()
    return sums.float()
