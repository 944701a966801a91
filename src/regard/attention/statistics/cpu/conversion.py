"""Conversion of queries, keys and values to float32, the only type that the C kernel supports.

float16 and bfloat16 inputs are converted for a few heads at a time, to save memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.statistics.cpu.plan import HeadBlock

CONVERTED_AT_ONCE = 2**24
"""The largest number of float16 or bfloat16 numbers to convert to float32 at one time: 64 MiB of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of the C kernel's work: some blocks of queries, and the vectors of their heads in float32.

    Attributes:
        numbers: the indices of these blocks in `Plan.blocks`.
        query: queries; index [0, 0] is batch item `batch` and head `head` of the call.
        key: keys; index [0, 0] is batch item `batch` and key head `key_head` of the call.
        value: values of the same batch items and heads as `key`; None = no context is computed.
    """

    numbers: slice
    query: Float[Tensor, "_batch heads queries width"]
    key: Float[Tensor, "_batch key_heads keys d_key"]
    value: Float[Tensor, "_batch key_heads keys d_value"] | None
    batch: int = 0
    head: int = 0
    key_head: int = 0


def float32_parts(call: Call, blocks: Sequence[HeadBlock], contexts: bool) -> Iterator[Part]:
    """Yield the blocks of queries that the C kernel computes, grouped into parts with float32 queries, keys and values.

    If the inputs are float32, there is one part with all blocks. Other inputs are converted for a few heads of one
    batch item at a time, and each part has the blocks of these heads.

    Args:
        blocks: the blocks of the plan, which are yielded in this order.
        contexts: whether the context is computed, which needs the values.
    """
    query, key, formula = call.query, call.key, call.softmax
    if formula.projection is not None:
        query, key = formula.vectors(query.float(), key.float())
    value = call.value if contexts else None
    if query.dtype == torch.float32 and (value is None or value.dtype == torch.float32):
        yield Part(
            slice(0, len(blocks)), in_float32(query), in_float32(key), None if value is None else in_float32(value)
        )
        return
    group, n_query_numbers = call.grid.heads // key.shape[1], query.shape[2] * query.shape[3]
    n_key_numbers = key.shape[2] * (key.shape[3] + (0 if value is None else value.shape[3]))
    heads_at_once = max(1, CONVERTED_AT_ONCE // max(1, group * n_query_numbers + n_key_numbers))
    first = 0
    for (batch, number), members in groupby(blocks, lambda block: (block.batch, block.head // group // heads_at_once)):
        last = first + len(list(members))
        key_heads = slice(number * heads_at_once, (number + 1) * heads_at_once)
        heads = slice(key_heads.start * group, key_heads.stop * group)
        yield Part(
            slice(first, last),
            in_float32(batch_item(query, batch)[:, heads]),
            in_float32(batch_item(key, batch)[:, key_heads]),
            None if value is None else in_float32(batch_item(value, batch)[:, key_heads]),
            batch,
            heads.start,
            key_heads.start,
        )
        first = last


def batch_item(vectors: Float[Tensor, "_batch heads tokens d"], number: int) -> Float[Tensor, "1 heads tokens d"]:
    """Return batch item `number` of queries, keys or values, with a batch axis of size 1.

    If the batch size is 1, the only batch item is returned for every `number`.
    """
    return vectors if len(vectors) == 1 else vectors[number : number + 1]


def in_float32(vectors: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return queries, keys or values in float32, with stride 1 along the last axis."""
    vectors = vectors.float()
    return vectors if vectors.stride(-1) == 1 else vectors.contiguous()
