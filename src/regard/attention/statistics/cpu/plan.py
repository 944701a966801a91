"""The plan of a pass: blocks of some queries of one head, each with the keys that the block can reach.

A mask that keeps one range of keys for each query (causal, a window, padding, documents, and what follows from
them) needs no matrix: a block spans the ranges of its queries, and each row is computed within its own range.
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
from regard.attention.stages import NUMBER
from regard.attention.statistics.cpu.results import CPU
from regard.attention.statistics.ranges import key_ranges

BLOCK_QUERIES = 128
"""Queries in a block; with fewer, keys and values would be copied for the products more often."""

SCORES_IN_CACHE = 2**18
"""Scores that fit into the cache of a core; a block with more scores is computed in parts."""

KEYS_AT_ONCE = 2**13
"""Keys that are summed in float32 at one time: a sum over half a million keys loses three digits, 64 sums lose one."""

MAX_BLOCK_SCORES = 2**24
"""The largest number of scores in a block, however many keys there are: 64 MiB."""


@dataclass(frozen=True, slots=True)
class HeadBlock:
    """Some queries of one head of one batch item, and a range of keys that holds every key these queries see."""

    batch: int
    head: int
    queries: range
    keys: range

    @property
    def size(self) -> int:
        """The number of weights in the block."""
        return len(self.queries) * len(self.keys)

    @property
    def width(self) -> int:
        """The number of keys in a part of the block: as many as fit into the cache and may be summed at once."""
        return min(len(self.keys), max(1, min(SCORES_IN_CACHE // max(1, len(self.queries)), KEYS_AT_ONCE)))

    @property
    def n_scratch(self) -> int:
        """The numbers of scratch memory that the C function `compute_block` needs, without the cells of a map."""
        rows, keys, width = len(self.queries), len(self.keys), self.width
        return rows * (keys + 3 + -(-keys // max(1, width))) + 2 * width

    def parts(self) -> list["HeadBlock"]:
        """Return the block cut into parts of `width` keys."""
        parts = spans(len(self.keys), max(1, self.width))
        return [replace(self, keys=self.keys[part.start : part.stop]) for part in parts]

    def tile(self, grid: Grid) -> Tile:
        """Return the block as a tile of the grid."""
        batch, head = range(self.batch, self.batch + 1), range(self.head, self.head + 1)
        return grid.whole().part(batch, head, self.queries, self.keys)


@dataclass(frozen=True, slots=True, eq=False)
class KeyLimits:
    """The range of keys that each query sees, for each batch item and head; axes of size 1 are broadcast."""

    starts: Int[Tensor, "#batch #heads queries"]
    stops: Int[Tensor, "#batch #heads queries"]

    @classmethod
    def of(cls, grid: Grid, mask: Mask | None) -> "KeyLimits | None":
        """Return the key limits of a mask, or None if there is no mask or it is not one range for each query."""
        ranges = None if mask is None else key_ranges(grid, mask, CPU)
        if ranges is None or len(ranges.starts) > 1:
            return None
        limits = (limit[0].expand(-1, -1, grid.queries).int().contiguous() for limit in (ranges.starts, ranges.stops))
        return cls(*limits)

    def plane(self, batch: int, head: int) -> tuple[int, int]:
        """Return the index of the limits of a batch item and head."""
        return batch % len(self.starts), head % self.starts.shape[1]

    def reaches(self, plane: tuple[int, int], size: int, n_keys: int) -> list[range]:
        """Return, for every `size` consecutive queries, the range from the first to the last key that they see."""
        starts, stops = self.starts[plane], self.stops[plane]
        starts = torch.where(starts < stops, starts, n_keys)  # a query that sees no key does not widen the range
        padding = 0, -len(starts) % size
        first = F.pad(starts, padding, value=n_keys).view(-1, size).amin(1).tolist()
        last = F.pad(stops, padding).view(-1, size).amax(1).tolist()
        return [range(*limits) for limits in zip(first, last, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How the C kernel splits the attention of a call into blocks of queries, head by head.

    Attributes:
        limits: the range of keys that each query sees, where the mask is one range for each query.
        bounds: the blocks as the C struct `BlockBounds` has them.
        size: the number of weights in all blocks.
        rows: the largest number of queries in a block.
        width: the largest number of keys in a part of a block.
        n_scratch: the largest number of scratch numbers that a block needs.
    """

    limits: KeyLimits | None
    blocks: tuple[HeadBlock, ...]
    bounds: Int[Tensor, "blocks 8"]
    size: int
    rows: int
    width: int
    n_scratch: int

    @classmethod
    def of(cls, grid: Grid, mask: Mask | None) -> "Plan":
        """Return the plan for a grid and a mask; plans are cached, since the layers of a model often share one."""
        make = cls.cached if mask is None or holds_numbers_alone(mask) else cls.cached.__wrapped__
        return make(grid, mask, BLOCK_QUERIES, SCORES_IN_CACHE)

    @staticmethod
    @lru_cache(8)
    def cached(grid: Grid, mask: Mask | None, block_queries: int, scores_in_cache: int) -> "Plan":
        """Return the plan for a grid and a mask; the constants are arguments so that they are part of the cache key."""
        limits = KeyLimits.of(grid, mask)
        return plan_of_blocks(limits, tuple(blocks_of(grid, mask, limits)))

    def share(self, blocks: slice) -> "Plan":
        """Return the plan for a part of the blocks."""
        return plan_of_blocks(self.limits, self.blocks[blocks])


def plan_of_blocks(limits: KeyLimits | None, blocks: tuple[HeadBlock, ...]) -> Plan:
    """Return the plan that consists of these blocks."""
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


def holds_numbers_alone(mask: Mask) -> bool:
    """Return whether a mask is one of regard's own and holds only numbers, so that it can be the key of a cache."""
    if not type(mask).__module__.startswith("regard."):
        return False
    for name in mask.__dataclass_fields__:  # type: ignore[attr-defined]  # ours are dataclasses
        value = getattr(mask, name)
        if not (holds_numbers_alone(value) if isinstance(value, Mask) else isinstance(value, NUMBER)):
            return False
    return True


def blocks_of(grid: Grid, mask: Mask | None, limits: KeyLimits | None) -> Iterator[HeadBlock]:
    """Yield the blocks of a grid, head by head."""
    size = max(1, min(BLOCK_QUERIES, MAX_BLOCK_SCORES // max(1, grid.keys)))
    queries, reaches = list(spans(grid.queries, size)), dict[tuple[int, int], list[range]]()
    for batch, head in product(range(grid.batch), range(grid.heads)):
        plane = (0, 0) if limits is None else limits.plane(batch, head)
        if plane not in reaches and limits is not None:
            reaches[plane] = limits.reaches(plane, size, grid.keys)
        elif plane not in reaches:
            reaches[plane] = [range(grid.keys) if mask is None else mask.reach(grid, span) for span in queries]
        yield from (HeadBlock(batch, head, *spans_) for spans_ in zip(queries, reaches[plane], strict=True))
