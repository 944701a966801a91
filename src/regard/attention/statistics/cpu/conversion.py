"""Queries, keys and values in float32, as the C kernel takes them; half types are converted some heads at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.statistics.cpu.plan import HeadBlock

CONVERTED_AT_ONCE = 2**24
"""Numbers of a half type that are converted to float32 at one time: 64 MiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Consecutive blocks of queries, and the heads that they belong to in float32.

    Attributes:
        numbers: which of all blocks these are.
        query: the queries of the batch items from `batch` on and of the heads from `head` on; one item may serve all.
        key: the keys, of the heads from `key_head` on.
        value: the values, of the heads from `key_head` on; None = no contexts are computed.
    """

    numbers: slice
    query: Float[Tensor, "_batch heads queries width"]
    key: Float[Tensor, "_batch key_heads keys d_key"]
    value: Float[Tensor, "_batch key_heads keys d_value"] | None
    batch: int = 0
    head: int = 0
    key_head: int = 0


def float32_parts(call: Call, blocks: Sequence[HeadBlock], contexts: bool) -> Iterator[Part]:
    """Yield the blocks with queries, keys and values in float32: all blocks at once, unless they are converted."""
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
    """Return one item of a batch; a batch of 1 serves every item."""
    return vectors if len(vectors) == 1 else vectors[number : number + 1]


def in_float32(vectors: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return vectors in float32, the numbers of each vector side by side in memory."""
    vectors = vectors.float()
    return vectors if vectors.stride(-1) == 1 else vectors.contiguous()
