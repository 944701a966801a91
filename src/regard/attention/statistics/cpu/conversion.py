"""Queries, keys and values in the form that the C kernel reads fastest: float32, tokens of a head adjacent in memory.

The tokens of a head are not adjacent in the tensors of most models. The kernel can read them too, but at almost half
the speed, because fewer tokens fit into the processor's cache.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.attention.precision import without_autocast
from regard.attention.statistics.cpu.plan import BATCH, BLOCK_QUERIES, HEAD

CONVERTED_AT_ONCE = 2**22
"""The most numbers converted at a time: 16 MiB of float32. A key head with more numbers is converted alone."""

MIN_QUERIES = 2 * BLOCK_QUERIES
"""The smallest number of queries for which heads are copied, to make their tokens adjacent in memory.

The C kernel reads all keys and values once for each block of queries. A copy takes as long as one such reading.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ConvertedHeads:
    """Float32 queries, keys and values of consecutive heads, and the blocks (`block_numbers`) of these heads."""

    block_numbers: slice  # the rows of `Plan.bounds` with the blocks of these heads
    query: Float[Tensor, "_batch heads queries width"]
    key: Float[Tensor, "_batch key_heads keys d_key"]
    value: Float[Tensor, "_batch key_heads keys d_value"] | None  # None = no context is computed
    batch: int = 0  # the batch item of query[0, 0], key[0, 0] and value[0, 0] in the call
    head: int = 0  # the head of query[0, 0]
    key_head: int = 0  # the head of key[0, 0] and value[0, 0]


def converted_heads(call: Call, bounds: Int[Tensor, "blocks 8"], contexts: bool) -> Iterator[ConvertedHeads]:
    """Yield queries, keys and values that the C kernel can read: unchanged, or copies of a few heads at a time.

    Args:
        bounds: the blocks that the kernel computes (see `Plan.bounds`).
        contexts: whether the kernel also computes the context, for which it needs the values.
    """
    query, key = call.query, call.key
    if call.formula is not None and call.formula.projection is not None:
        with without_autocast(call.device):  # the dot products of the projected vectors are the scores
            query, key = call.formula.vectors(query.float(), key.float())
    value = call.value if contexts else None
    adjacent = call.grid.queries >= MIN_QUERIES
    readable = has_readable_layout(query, adjacent) and has_readable_layout(key, adjacent)
    if readable and (value is None or has_readable_layout(value, adjacent)):
        yield ConvertedHeads(slice(None), query, key, value)
        return
    group, n_query_numbers = call.grid.heads // key.shape[1], query.shape[2] * query.shape[3]
    n_key_numbers = key.shape[2] * (key.shape[3] + (0 if value is None else value.shape[3]))
    n_numbers_of_key_head = group * n_query_numbers + n_key_numbers
    heads_at_once = max(1, CONVERTED_AT_ONCE // max(1, n_numbers_of_key_head))
    # For each block: its batch item, and the number of its chunk (`heads_at_once` consecutive key heads). Blocks are
    # sorted by batch item and head, so those of a chunk are adjacent.
    chunk_of_block = [(batch, head // group // heads_at_once) for batch, head in bounds[:, [BATCH, HEAD]].tolist()]
    first_block = 0
    for (batch, chunk), n_blocks in Counter(chunk_of_block).items():
        key_heads = slice(chunk * heads_at_once, (chunk + 1) * heads_at_once)
        heads = slice(key_heads.start * group, key_heads.stop * group)
        yield ConvertedHeads(
            slice(first_block, first_block + n_blocks),
            readable_vectors(batch_item(query, batch)[:, heads], adjacent),
            readable_vectors(batch_item(key, batch)[:, key_heads], adjacent),
            None if value is None else readable_vectors(batch_item(value, batch)[:, key_heads], adjacent),
            batch=batch,
            head=heads.start,
            key_head=key_heads.start,
        )
        first_block += n_blocks


def batch_item(vectors: Float[Tensor, "_batch heads tokens d"], number: int) -> Float[Tensor, "1 heads tokens d"]:
    """Return one batch item; if the batch size is 1, the same for every `number`."""
    return vectors if len(vectors) == 1 else vectors[number : number + 1]


def has_readable_layout(vectors: Float[Tensor, "_batch _heads _tokens _"], adjacent: bool) -> bool:
    """Return whether the C kernel can read vectors without a copy; if `adjacent`, tokens must be adjacent in memory."""
    token_stride, number_stride = vectors.stride()[-2:]
    has_strides = number_stride == 1 and (not adjacent or token_stride == vectors.shape[-1])
    return vectors.dtype == torch.float32 and has_strides


def readable_vectors(
    vectors: Float[Tensor, "_batch heads tokens d"], adjacent: bool
) -> Float[Tensor, "_batch heads tokens d"]:
    """Return the vectors themselves if the C kernel can read them, else a contiguous float32 copy."""
    if has_readable_layout(vectors, adjacent):
        return vectors
    return vectors.new_empty(vectors.shape, dtype=torch.float32).copy_(vectors)
