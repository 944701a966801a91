"""Functions shared by the Triton kernels: which block a program computes, and the scores and mask of a block.

    scores = (softcap(scale · query · key) + bias) / temperature · log₂ e

Scores are multiplied by log₂ e, because a GPU computes 2^x faster than e^x. Dot products and scores are computed in
float32.
"""

from typing import no_type_check

import triton
import triton.language as tl


@no_type_check
@triton.jit
def tile_of_program(first_head, tiles, heads):
    """Return the index of the tile, the number of the head, the batch item and the head, for a Triton program.

    The last tiles come first, because under a causal mask the last blocks of queries take longest.

    Args:
        first_head: the number of the first head to compute; head h of batch item b has the number b · heads + h.
        tiles: the number of tiles (blocks of queries or keys) of a head.
    """
    program = tl.program_id(0)
    head_number = first_head + program // tiles
    batch, head = head_number // heads, head_number % heads
    tile = tiles - 1 - program % tiles
    return tile, head_number.to(tl.int64), batch.to(tl.int64), head.to(tl.int64)


@no_type_check
@triton.jit
def load_vectors(rows, batch, head, first, tokens, exists, width, padded: tl.constexpr):
    """Load the vectors of some tokens as a matrix [tokens padded]; the vector of a token is 0 where `exists` is False.

    Args:
        rows: a `StridedTensor` of queries, keys or values.
        first, tokens: a start and a range 0, 1, 2, …; the indices of the tokens are first + tokens.
        padded: `width`, the size of a vector, rounded up to a power of 2; the additional numbers are 0.
    """
    start = rows.numbers + batch * rows.batch_stride + head * rows.head_stride
    start += tl.cast(first, tl.int64) * rows.token_stride
    column = tl.arange(0, padded)
    offsets = tokens[:, None] * rows.token_stride + column[None, :]
    return tl.load(start + offsets, mask=exists[:, None] & (column[None, :] < width), other=0.0)


@no_type_check
@triton.jit
def scores_of(products, i, j, exists, batch, head, formula, dtype: tl.constexpr):
    """Return the scores of queries i and keys j, times log₂ e / temperature, given their dot products.

    Args:
        exists: False where the query or the key does not exist; the bias tensor is not read there.
        formula: a `ScoreFormula` (see arguments.py); its factors include log₂ e / temperature.
        dtype: the data type of the query, to which the bias of `Alibi` is rounded.
    """
    scores = products * formula.product_factor
    if formula.tanh_factor is not None:
        scores = formula.tanh_factor * tanh(scores)
    if formula.slopes is not None:
        distance = tl.abs(j - i - formula.first_position).to(tl.float32)
        scores += (-tl.load(formula.slopes + head) * distance).to(dtype).to(tl.float32) * formula.bias_factor
    if formula.by_distance is not None:
        far = formula.max_distance
        distance = tl.minimum(tl.maximum(j - i - formula.first_position, -far), far)
        scores += tl.load(formula.by_distance + head * (2 * far + 1) + distance + far) * formula.bias_factor
    if formula.biases is not None:
        start = formula.biases + batch * formula.bias_batch + head * formula.bias_head
        offsets = i.to(tl.int64) * formula.bias_query + j.to(tl.int64) * formula.bias_key
        scores += tl.load(start + offsets, mask=exists, other=0.0).to(tl.float32) * formula.bias_factor
    return scores


@no_type_check
@triton.jit
def tanh(doubled):
    """Return tanh(x); `doubled` is 2 x / ln 2. Near 0, a Taylor series is more exact than 1 - 2 / (1 + 2^doubled)."""
    x = doubled * 0.34657359  # ln 2 / 2
    squared = x * x
    near = x * (1 - squared * (1 / 3 - squared * (2 / 15 - squared * (17 / 315))))
    return tl.where(tl.abs(x) < 0.2, near, 1 - 2 / (1 + tl.exp2(doubled)))


@no_type_check
@triton.jit
def load_limits(limits, n, batch, head, i, exists):
    """Return the start and the stop of the n-th range of keys to which query i may attend; 0, 0 if not `exists`."""
    address = head_address(limits, n, batch, head) + i.to(tl.int64) * limits.row_stride
    return tl.load(address, mask=exists, other=0), tl.load(address + 1, mask=exists, other=0)


@no_type_check
@triton.jit
def load_border(mask_ranges, n, batch, head, tile, which: tl.constexpr):
    """Return position a, b, c or d of a block: the kernel reads tokens a to d, and applies no mask to tokens b to c."""
    address = head_address(mask_ranges.borders, n, batch, head) + tile * mask_ranges.borders.row_stride
    return tl.load(address + which)


@no_type_check
@triton.jit
def head_address(table, n, batch, head):
    """Return the address in a `Table` where the numbers of one head begin, for the n-th range of keys of each query."""
    range_address = table.numbers + tl.cast(n, tl.int64) * table.range_stride
    return range_address + batch * table.batch_stride + head * table.head_stride
