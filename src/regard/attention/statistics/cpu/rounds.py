"""Queries, keys and values in float32, ready for the products: half types are turned into it some heads at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import contiguous_rows
from regard.attention.statistics.cpu.plan import Block

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

READY_AT_MOST = 2**24
"""Numbers of half types that are turned into float32 at a time: 64 MiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Blocks that are gone through together, and their heads in float32.

    Attributes:
        numbers: which of all blocks these are.
        query: of the batch items from `batch` on and the heads from `head` on; one item may serve all.
        key: likewise, of the heads from `key_head` on, as value.
    """

    numbers: slice
    query: Float[Tensor, "_batch heads queries d_query"]
    key: Float[Tensor, "_batch key_heads keys d_key"]
    value: Float[Tensor, "_batch key_heads keys d_value"] | None
    batch: int = 0
    head: int = 0
    key_head: int = 0


def rounds_of(pattern: "Pattern", blocks: Sequence[Block], contexts: bool) -> Iterator[Round]:
    """All blocks in one round; half types in as many as it takes to keep what they are turned into small."""
    query, key, value = pattern.query, pattern.key, pattern.value if contexts else None
    if query.dtype == torch.float32:
        yield Round(slice(0, len(blocks)), ready(query), ready(key), None if value is None else ready(value))
        return
    group, tokens = pattern.grid.heads // key.shape[1], query.shape[2] * query.shape[3]
    of_head = group * tokens + key.shape[2] * (key.shape[3] + (0 if value is None else value.shape[3]))
    at_once, first = max(1, READY_AT_MOST // max(1, of_head)), 0
    for (batch, number), some in groupby(blocks, lambda block: (block.batch, block.head // group // at_once)):
        key_heads, last = slice(number * at_once, (number + 1) * at_once), first + len(list(some))
        heads = slice(key_heads.start * group, key_heads.stop * group)
        yield Round(
            slice(first, last),
            ready(item(query, batch)[:, heads]),
            ready(item(key, batch)[:, key_heads]),
            None if value is None else ready(item(value, batch)[:, key_heads]),
            batch,
            heads.start,
            key_heads.start,
        )
        first = last


def item(part: Float[Tensor, "_batch heads tokens d"], number: int) -> Float[Tensor, "1 heads tokens d"]:
    """One item of a batch; a batch of 1 serves every item."""
    return part if len(part) == 1 else part[number : number + 1]


def ready(part: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The same in float32, the numbers of a vector side by side."""
    return contiguous_rows(part.float())
