"""What both kernels share: where a program stands, the scores of a tile, and which of its places the mask keeps.

    scores = (scale · query · key, capped, + bias) / temperature · log₂ e

Scores are in base 2, which is what a GPU raises; a number in nats is ln 2 times that in base 2. Everything after the
products is in float32.
"""

from typing import no_type_check

import triton
import triton.language as tl


@no_type_check
@triton.jit
def place(first_item, tiles, heads):
    """The tile, item, batch and head of this program; the last tile comes first, as under a causal mask it is long."""
    number = tl.program_id(0)
    item = first_item + number // tiles
    return tiles - 1 - number % tiles, item.to(tl.int64), (item // heads).to(tl.int64), (item % heads).to(tl.int64)


@no_type_check
@triton.jit
def vectors(rows, batch, head, first, tokens, there, width, padded: tl.constexpr):
    """Consecutive vectors from `first` on, as a tile [tokens padded]; 0 where a token is not there."""
    start = rows.numbers + batch * rows.batch + head * rows.head + tl.cast(first, tl.int64) * rows.token
    column = tl.arange(0, padded)
    places = tokens[:, None] * rows.token + column[None, :]
    return tl.load(start + places, mask=there[:, None] & (column[None, :] < width), other=0.0)


@no_type_check
@triton.jit
def scored(products, i, j, there, batch, head, rule, dtype: tl.constexpr):
    """The scores of products of queries i and keys j, where they are there; a bias is rounded to the input's type."""
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
    """The hyperbolic tangent of half a number, in base 2; near 0 by its series, as the difference loses digits."""
    x = doubled * 0.34657359  # ln 2 / 2
    squared = x * x
    near = x * (1 - squared * (1 / 3 - squared * (2 / 15 - squared * (17 / 315))))
    return tl.where(tl.abs(x) < 0.2, near, 1 - 2 / (1 + tl.exp2(doubled)))


@no_type_check
@triton.jit
def limits_of(mask_ranges, n, batch, head, i, there):
    """The n-th range of keys of each query; none for a query that is not there."""
    at = start_of(mask_ranges.limits, n, batch, head) + i.to(tl.int64) * mask_ranges.limits.place
    return tl.load(at, mask=there, other=0), tl.load(at + 1, mask=there, other=0)


@no_type_check
@triton.jit
def border(mask_ranges, n, batch, head, tile, which: tl.constexpr):
    """One of the four borders of a tile: where it begins, from where and up to where it is whole, where it ends."""
    return tl.load(start_of(mask_ranges.borders, n, batch, head) + tile * mask_ranges.borders.place + which)


@no_type_check
@triton.jit
def start_of(table, n, batch, head):
    """Where the numbers of a head's n-th range begin."""
    return table.numbers + tl.cast(n, tl.int64) * table.part + batch * table.batch + head * table.head
