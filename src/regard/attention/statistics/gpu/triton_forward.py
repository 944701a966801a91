"""The Triton kernel `forward`: the context and the log-sum-exp of each query (FlashAttention, Dao et al. 2022).

Each program (instance of the kernel) computes a block of queries (a tile), and reads the keys block by block. For each
query it stores the largest score so far, and sums over the unnormalised weights e = 2^(s - largest) of the scores s:

    total = Σ e,  context = Σ e · value

When a larger score is found, the sums are rescaled (Milakov & Gimelshein 2018, algorithm 3). After the last key, the
context is divided by total + 2^(sink - largest); the sink is a score that belongs to no key.
"""

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from regard.attention.statistics.gpu.arguments import KernelArguments
from regard.attention.statistics.gpu.schedule import along_keys
from regard.attention.statistics.gpu.scores import load_border, load_limits, load_vectors, scores_of, tile_of_program


class ForwardResults(NamedTuple):
    """The tensors into which the Triton kernel `forward` writes; None = not computed."""

    log_sum: Any
    """[batch heads queries], log₂ Σ 2^score, sink included; +∞ for a query with all keys masked: its weights are 0."""
    log_share: Any = None
    """[batch heads queries], log₂ of the sum of the weights, which is below 1 if a sink takes the rest."""
    context: Any = None  # [batch heads queries d_value]


def compute_forward(arguments: KernelArguments, results: ForwardResults, head_numbers: range) -> None:
    """Run the kernel for some heads: number n is head n % heads of batch item n // heads."""
    n_queries, n_keys = arguments.tile_sizes
    programs = triton.cdiv(arguments.grid.queries, n_queries) * len(head_numbers)
    forward[(programs,)](
        arguments.query,
        arguments.key,
        arguments.value,
        arguments.mask_ranges(along_keys(arguments.limits, n_queries, n_keys)),
        arguments.formula,
        arguments.sinks,
        results,
        arguments.sizes,
        head_numbers.start,
        ranges=len(arguments.limits),
        width=arguments.widths[0],
        d_value=arguments.widths[1] if results.context is not None else 16,
        n_queries=n_queries,
        n_keys=n_keys,
        num_warps=8 if n_queries == 128 else 4,
        num_stages=arguments.stages,
        enable_fp_fusion=True,
    )


@no_type_check
@triton.jit
def forward(
    query,
    key,
    value,
    mask_ranges,
    formula,
    sinks,
    results,
    sizes,
    first_head,
    ranges,
    width: tl.constexpr,
    d_value: tl.constexpr,
    n_queries: tl.constexpr,
    n_keys: tl.constexpr,
):
    """Triton kernel: each program computes the context and the log-sum-exp of one block of queries.

    Args:
        query, key, value: `StridedTensor`s.
        mask_ranges, formula, results, sizes: a `MaskRanges`, a `ScoreFormula`, a `ForwardResults` and a `Sizes`.
        sinks: for each head, an extra score that belongs to no key; -∞ = none.
        ranges: the number of ranges of keys to which each query may attend.
        width, d_value: the widths of keys and of values, rounded up to powers of 2.
    """
    tile, head_number, batch, head = tile_of_program(first_head, tl.cdiv(sizes.queries, n_queries), sizes.heads)
    query_in_block = tl.arange(0, n_queries)
    i = tile * n_queries + query_in_block
    exists = i < sizes.queries
    indices = (batch, head, i)
    queries = load_vectors(query, batch, head, tile * n_queries, query_in_block, exists, sizes.width, width)
    sink = tl.load(sinks + head)
    zeros = tl.zeros([n_queries], tl.float32)
    sums = (zeros + sink, zeros, tl.zeros([n_queries, d_value], tl.float32))
    for n in range(ranges):
        limits = load_limits(mask_ranges.limits, n, batch, head, i, exists)
        for part in tl.static_range(3):  # part 1, between the borders b and c, needs no mask
            span = (
                load_border(mask_ranges, n, batch, head, tile, part),
                load_border(mask_ranges, n, batch, head, tile, part + 1),
            )
            sums = read_keys(
                queries, key, value, formula, results, sizes, indices, limits, span, sums, part != 1, n_keys
            )
    largest, total, context = sums
    shift = tl.where(largest == -float("inf"), 0.0, largest)
    with_sink = total + tl.exp2(sink - shift)
    no_keys = with_sink == 0
    log_sum = tl.where(no_keys, float("inf"), shift + tl.log2(with_sink))
    flat_index = head_number * sizes.queries + i
    tl.store(results.log_sum + flat_index, log_sum, mask=exists)
    if results.log_share is not None:
        share = tl.where(total == 0, 1.0, total / with_sink)
        tl.store(results.log_share + flat_index, tl.log2(share), mask=exists)
    if results.context is not None:
        inverse = tl.where(no_keys, 0.0, 1 / with_sink)
        column = tl.arange(0, d_value)
        addresses = results.context + flat_index[:, None] * sizes.d_value + column[None, :]
        numbers = (context * inverse[:, None]).to(queries.dtype)
        tl.store(addresses, numbers, mask=exists[:, None] & (column[None, :] < sizes.d_value))


@no_type_check
@triton.jit
def read_keys(
    queries,
    key,
    value,
    formula,
    results,
    sizes,
    indices,
    limits,
    span,
    sums,
    masked: tl.constexpr,
    n_keys: tl.constexpr,
):
    """Add some more keys to the running sums of a block of queries; return the new sums.

    Args:
        key, value, formula, results, sizes: passed on by the kernel `forward`.
        indices: the batch item, the head and the indices of the queries.
        limits: for each query, the start and the stop of the range of keys to which it may attend.
        span: the first key to add, and the key after the last.
        sums: for each query, from the keys so far: the largest score, the sum of e = 2^(score - largest), and the sum
            of e · value.
        masked: whether the mask must be applied.
    """
    batch, head, i = indices
    start, stop = limits
    begin, end = span
    largest, total, context = sums
    key_in_block = tl.arange(0, n_keys)
    for first in range(begin, end, n_keys):
        j = first + key_in_block
        exists = j < end
        keys = load_vectors(key, batch, head // sizes.group, first, key_in_block, exists, sizes.width, queries.shape[1])
        products = tl.dot(queries, tl.trans(keys), input_precision="tf32x3")
        pair_exists = (i < sizes.queries)[:, None] & exists[None, :]
        scores = scores_of(products, i[:, None], j[None, :], pair_exists, batch, head, formula, queries.dtype)
        if masked:
            allowed = (j[None, :] >= start[:, None]) & (j[None, :] < stop[:, None])
            scores = tl.where(allowed, scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        shift = tl.where(new_largest == -float("inf"), 0.0, new_largest)
        rescale = tl.exp2(tl.where(largest == -float("inf"), 0.0, largest - shift))
        weights = tl.exp2(scores - shift[:, None])
        if results.context is not None:
            values = load_vectors(
                value, batch, head // sizes.group, first, key_in_block, exists, sizes.d_value, context.shape[1]
            )
            context = tl.dot(weights.to(values.dtype), values, context * rescale[:, None], input_precision="tf32x3")
        total = rescale * total + tl.sum(weights, axis=1)
        largest = new_largest
    return largest, total, context
