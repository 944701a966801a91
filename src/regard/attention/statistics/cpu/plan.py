"""How the C kernel divides a call of `attend` into blocks.

If the mask allows each query one range of keys (causal, windows, padding, documents, and their overlaps), the kernel
gets the start and stop of each query's range instead of a boolean matrix.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile, spans
from regard.attention.masks.mask import Mask
from regard.attention.stages import NUMBER_TYPES
from regard.attention.statistics.cpu.results import CPU
from regard.attention.statistics.ranges import key_ranges
from regard.kernels.attention import strides

BLOCK_QUERIES = 128
"""The number of queries in a block; with fewer, the C kernel would copy keys and values more often."""

SCORES_IN_CACHE = 2**18
"""How many scores fit into the cache of a processor core; a block with more scores is computed in ranges of keys."""

KEYS_AT_ONCE = 2**13
"""The largest number of keys in one range of keys of a block; the weights of a range are summed in float32.

One float32 sum over half a million keys would lose three digits; 64 sums of 8,192 keys each lose one.
"""

MAX_BLOCK_SCORES = 2**24
"""The largest number of scores in a block: 64 MiB. If there are many keys, a block has fewer queries."""


@dataclass(frozen=True, slots=True)
class HeadBlock:
    """Consecutive queries of one head, and a range of keys that contains every key these queries may attend to."""

    batch: int
    head: int
    queries: range
    keys: range

    @property
    def size(self) -> int:
        return len(self.queries) * len(self.keys)

    @property
    def width(self) -> int:
        """How many keys of the block are computed at a time, so that their scores fit into the processor's cache."""
        return min(len(self.keys), max(1, min(SCORES_IN_CACHE // max(1, len(self.queries)), KEYS_AT_ONCE)))

    @property
    def n_scratch(self) -> int:
        """How many floats the scores, maxima and sums of this block take (see `QueryBlock` in attention.h)."""
        rows, keys, width = len(self.queries), len(self.keys), self.width
        return rows * (keys + 3 + -(-keys // max(1, width))) + 2 * width

    def parts(self) -> list["HeadBlock"]:
        """Return blocks with the same queries, and `width` consecutive keys each, that together make up this block."""
        parts = spans(len(self.keys), max(1, self.width))
        return [replace(self, keys=self.keys[part.start : part.stop]) for part in parts]

    def tile(self, grid: Grid) -> Tile:
        batch, head = range(self.batch, self.batch + 1), range(self.head, self.head + 1)
        return grid.whole().part(batch, head, self.queries, self.keys)


@dataclass(frozen=True, slots=True, eq=False)
class KeyLimits:
    """A mask that allows query i only the keys from starts[batch, head, i] to stops[batch, head, i] - 1."""

    starts: Int[Tensor, "#batch #heads queries"]
    stops: Int[Tensor, "#batch #heads queries"]
    strides: tuple[int, int]  # of the batch axis and of the heads axis; 0 for an axis of size 1, which is broadcast

    @classmethod
    def of(cls, grid: Grid, mask: Mask | None) -> "KeyLimits | None":
        """Return the limits of a mask; None if there is no mask, or if it allows some query several ranges of keys."""
        ranges = None if mask is None else key_ranges(grid, mask, CPU)
        if ranges is None or len(ranges.starts) > 1:
            return None
        limits = ranges.starts, ranges.stops
        starts, stops = (limit[0].expand(-1, -1, grid.queries).int().contiguous() for limit in limits)
        by_batch, by_head, _ = strides(starts)
        return cls(starts, stops, (by_batch, by_head))

    def index(self, batch: int, head: int) -> tuple[int, int]:
        """Return the indices of a batch item and a head in `starts`: 0 on an axis of size 1, since it is broadcast."""
        return batch % len(self.starts), head % self.starts.shape[1]

    def reaches(self, index: tuple[int, int], size: int, n_keys: int) -> list[range]:
        """Return, for each group of `size` consecutive queries, a range with all keys that the group may attend to.

        Args:
            index: the indices of the batch item and the head in `starts`, from the method `index`.
            n_keys: the number of all keys.
        """
        starts, stops = self.starts[index], self.stops[index]
        # The start of a query that may attend to no key becomes n_keys, so that it does not lower the minimum below.
        starts = torch.where(starts < stops, starts, n_keys)
        padding = 0, -len(starts) % size
        first = F.pad(starts, padding, value=n_keys).view(-1, size).amin(1).tolist()
        last = F.pad(stops, padding).view(-1, size).amax(1).tolist()
        return [range(*limits) for limits in zip(first, last, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The blocks into which the C kernel divides a call of `attend`."""

    limits: KeyLimits | None  # None = there is no mask, or it allows several ranges of keys
    blocks: tuple[HeadBlock, ...]
    bounds: Int[Tensor, "blocks 8"]  # for each block, the fields of the C struct `BlockBounds`
    size: int  # the number of weights in all blocks together
    rows: int  # the most queries of a block
    width: int  # the largest `width` of a block
    n_scratch: int  # the largest `n_scratch` of a block

    @classmethod
    def of(cls, grid: Grid, mask: Mask | None) -> "Plan":
        """Return the plan, cached if the mask has no tensors, since the layers of a model often have the same plan."""
        # A mask that contains tensors cannot be a key of the cache; `__wrapped__` is the function without the cache.
        make = cls.cached if mask is None or has_only_numbers(mask) else cls.cached.__wrapped__
        return make(grid, mask, BLOCK_QUERIES, SCORES_IN_CACHE)

    @staticmethod
    @lru_cache(8)
    def cached(grid: Grid, mask: Mask | None, block_queries: int, scores_in_cache: int) -> "Plan":
        """Return the plan. The last two arguments are unused; they let `lru_cache` notice a change of the constants."""
        limits = KeyLimits.of(grid, mask)
        return plan_of_blocks(limits, tuple(blocks_of(grid, mask, limits)))

    def share(self, blocks: slice) -> "Plan":
        """Return a plan with only `self.blocks[blocks]`, for a process that computes a part of the call."""
        return plan_of_blocks(self.limits, self.blocks[blocks])


def plan_of_blocks(limits: KeyLimits | None, blocks: tuple[HeadBlock, ...]) -> Plan:
    bounds = [(b.batch, b.head, b.queries.start, len(b.queries), b.keys.start, len(b.keys), b.width, 0) for b in blocks]
    return Plan(
        limits,
        blocks,
        torch.tensor(bounds, dtype=torch.int64, device=CPU).view(-1, 8),
        size=sum(block.size for block in blocks),
        rows=max((len(block.queries) for block in blocks), default=0),
        width=max((block.width for block in blocks), default=0),
        n_scratch=max((block.n_scratch for block in blocks), default=0),
    )


def has_only_numbers(mask: Mask) -> bool:
    """Return whether a mask of regard, and each mask that it combines, contains only numbers and no tensors.

    Such masks are equal if their fields are equal, so that they can be keys of a cache.
    """
    if not type(mask).__module__.startswith("regard."):
        return False
    for name in mask.__dataclass_fields__:  # type: ignore[attr-defined]  # masks of regard are dataclasses
        value = getattr(mask, name)
        if not (isinstance(value, NUMBER_TYPES) or (isinstance(value, Mask) and has_only_numbers(value))):
            return False
    return True


def blocks_of(grid: Grid, mask: Mask | None, limits: KeyLimits | None) -> Iterator[HeadBlock]:
    """Yield the blocks of a call in the order of the batch items, then of the heads, then of the queries."""
    size = max(1, min(BLOCK_QUERIES, MAX_BLOCK_SCORES // max(1, grid.keys)))
    queries, reaches = list(spans(grid.queries, size)), dict[tuple[int, int], list[range]]()
    for batch, head in product(range(grid.batch), range(grid.heads)):
        index = (0, 0) if limits is None else limits.index(batch, head)
        if index not in reaches and limits is not None:
            reaches[index] = limits.reaches(index, size, grid.keys)
        elif index not in reaches:
            reaches[index] = [range(grid.keys) if mask is None else mask.reach(grid, span) for span in queries]
        yield from (HeadBlock(batch, head, span, keys) for span, keys in zip(queries, reaches[index], strict=True))
