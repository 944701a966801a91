"""The Triton kernel `single_keys`: each query's weight on key 0, on the key at its position and on the key before that.

weight_ij = 2^(score_ij - log_sum_i)          log_sum_i = log₂ Σ_j 2^score_ij
"""

from typing import Any, no_type_check

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from regard.attention.statistics.gpu.arguments import KernelArguments
from regard.attention.statistics.gpu.scores import load_limits, load_vectors, scores_of, tile_of_program


def read_single_keys(
    arguments: KernelArguments,
    log_sum: Float[Tensor, "batch heads queries"],
    weights: dict[str, Any],
    head_numbers: range,
) -> None:
    """Run the Triton kernel `single_keys` for some heads; it writes into the tensors of `weights`.

    Args:
        log_sum: for each query, log₂ Σ 2^score over its keys.
        weights: the outputs by name: "first", "own" and "previous".
        head_numbers: the numbers of the heads to compute; head h of batch item b has the number b · heads + h.
    """
    n_queries, _ = arguments.tile_sizes
    single_keys[(triton.cdiv(arguments.grid.queries, n_queries) * len(head_numbers),)](
        arguments.query,
        arguments.key,
        arguments.limit_table(),
        arguments.formula,
        log_sum,
        *(weights.get(name) for name in ("first", "own", "previous")),
        arguments.sizes,
        head_numbers.start,
        ranges=len(arguments.limits),
        width=arguments.widths[0],
        n_queries=n_queries,
        num_warps=8 if n_queries == 128 else 4,
    )


@no_type_check
@triton.jit
def single_keys(
    query,
    key,
    limits,
    formula,
    log_sum,
    first,
    own,
    previous,
    sizes,
    first_head,
    ranges,
    width: tl.constexpr,
    n_queries: tl.constexpr,
):
    """Triton kernel: each program computes the weights of one block of queries on at most three keys.

    Args:
        query, key, formula, sizes: two `StridedTensor`s, a `ScoreFormula` and a `Sizes` (see arguments.py).
        limits: a `Table`: the start and the stop of each range of keys to which a query may attend.
        first, own, previous: the outputs [batch heads queries]: the weights on key 0, on the key at the query's own
            position and on the key before it; None = not computed.
        ranges: the number of these ranges for each query.
        width: the width of keys, rounded up to a power of 2.
    """
    tile, head_number, batch, head = tile_of_program(first_head, tl.cdiv(sizes.queries, n_queries), sizes.heads)
    query_in_block = tl.arange(0, n_queries)
    i = tile * n_queries + query_in_block
    exists = i < sizes.queries
    indices = (batch, head, i)
    queries = load_vectors(query, batch, head, tile * n_queries, query_in_block, exists, sizes.width, width)
    flat_index = head_number * sizes.queries + i
    log_sums = tl.load(log_sum + flat_index, mask=exists, other=0.0)
    if first is not None:
        weight = weight_on_key(queries, key, limits, formula, sizes, indices, tl.zeros_like(i), log_sums, ranges)
        tl.store(first + flat_index, weight, mask=exists)
    position = i + sizes.offset
    if own is not None:
        weight = weight_on_key(queries, key, limits, formula, sizes, indices, position, log_sums, ranges)
        tl.store(own + flat_index, weight, mask=exists)
    if previous is not None:
        weight = weight_on_key(queries, key, limits, formula, sizes, indices, position - 1, log_sums, ranges)
        tl.store(previous + flat_index, weight, mask=exists)


@no_type_check
@triton.jit
def weight_on_key(queries, key, limits, formula, sizes, indices, j, log_sums, ranges):
    """Return the attention weight of each query on its key `j`; 0 if the key is masked or does not exist.

    Args:
        key, limits, formula, sizes, ranges: passed on by the kernel `single_keys`.
        indices: the batch item, the head and the indices of the queries.
        log_sums: for each query, log₂ Σ 2^score over its keys.
    """
    batch, head, i = indices
    pair_exists = (i < sizes.queries) & (j >= 0) & (j < sizes.keys)
    keys = load_vectors(key, batch, head // sizes.group, 0, j.to(tl.int64), pair_exists, sizes.width, queries.shape[1])
    products = tl.sum(queries.to(tl.float32) * keys.to(tl.float32), axis=1)
    scores = scores_of(products, i, j, pair_exists, batch, head, formula, queries.dtype)
    allowed = log_sums != log_sums  # True if log_sum is NaN: such a query has the weight NaN on masked keys too
    for n in range(ranges):
        start, stop = load_limits(limits, n, batch, head, i, pair_exists)
        allowed = allowed | ((j >= start) & (j < stop))
    return tl.where(allowed, tl.exp2(scores - log_sums), 0.0)
