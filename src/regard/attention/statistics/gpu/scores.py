"""Functions of both Triton kernels: the tile of a program, the scores of a tile, and the mask of a tile.

    scores = (softcap(scale · query · key) + bias) / temperature · log₂ e

Scores are in base 2, since a GPU computes 2^x faster than e^x; multiplied by ln 2 they are in nats. Everything after
the products is in float32.
"""

from typing import no_type_check

import triton
import triton.language as tl


@no_type_check
@triton.jit
def place(first_item, tiles, heads):
    """Return tile, item, batch and head of this program; the last tile comes first: under a causal mask it is long."""
    number = tl.program_id(0)
    item = first_item + number // tiles
    return tiles - 1 - number % tiles, item.to(tl.int64), (item // heads).to(tl.int64), (item % heads).to(tl.int64)


@no_type_check
@triton.jit
def vectors(rows, batch, head, first, tokens, there, width, padded: tl.constexpr):
    """Return consecutive vectors from `first` on, as a tile [tokens padded]; 0 for tokens that are not `there`."""
    start = rows.numbers + batch * rows.batch + head * rows.head + tl.cast(first, tl.int64) * rows.token
    column = tl.arange(0, padded)
    places = tokens[:, None] * rows.token + column[None, :]
    return tl.load(start + places, mask=there[:, None] & (column[None, :] < width), other=0.0)


@no_type_check
@triton.jit
def scored(products, i, j, there, batch, head, rule, dtype: tl.constexpr):
    """Return the scores of queries i and keys j that are `there`, from products; a bias is rounded to `dtype`."""
    scores = products * rule.inner
    if rule.outer is not None:
        scores = rule.outer * tanh(scores)
    if rule.slopes is not None:
        far = tl.abs(j - i - rule.first).to(tl.float32)
        scores += (-tl.load(rule.slopes + head) * far).to(dtype).to(tl.float32) * rule.after
    if rule.by_distance is not None:
        far = tl.minimum(tl.maximum(j - i - rule.first, -rule.far), rule.far) + rule.far
        scores += tl.load(rule.by_distance + head * (2 * rule.far + 1) + far) * rule.after
    if rule.biases is not None:
        start = rule.biases + batch * rule.bias_batch + head * rule.bias_head
        places = i.to(tl.int64) * rule.bias_query + j.to(tl.int64) * rule.bias_key
        scores += tl.load(start + places, mask=there, other=0.0).to(tl.float32) * rule.after
    return scores


@no_type_check
@triton.jit
def tanh(doubled):
    """Return the hyperbolic tangent of half a number in base 2; near 0 by its series, which keeps more digits."""
    x = doubled * 0.34657359  # ln 2 / 2
    squared = x * x
    near = x * (1 - squared * (1 / 3 - squared * (2 / 15 - squared * (17 / 315))))
    return tl.where(tl.abs(x) < 0.2, near, 1 - 2 / (1 + tl.exp2(doubled)))


@no_type_check
@triton.jit
def limits_of(mask_ranges, n, batch, head, i, there):
    """Return start and stop of the n-th key range of each query; 0 and 0 for a query that is not `there`."""
    at = start_of(mask_ranges.limits, n, batch, head) + i.to(tl.int64) * mask_ranges.limits.place
    return tl.load(at, mask=there, other=0), tl.load(at + 1, mask=there, other=0)


@no_type_check
@triton.jit
def border(mask_ranges, n, batch, head, tile, which: tl.constexpr):
    """Return one of the four borders of a tile (see `schedule.py`)."""
    return tl.load(start_of(mask_ranges.borders, n, batch, head) + tile * mask_ranges.borders.place + which)


@no_type_check
@triton.jit
def start_of(table, n, batch, head):
    """Return a pointer to the first number of a head's n-th range."""
    return table.numbers + tl.cast(n, tl.int64) * table.part + batch * table.batch + head * table.head
