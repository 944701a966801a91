"""How the C kernel divides a call of `attend` into blocks.

If the mask allows each query one range of keys (causal, windows, padding, documents, and their overlaps), the kernel
gets the start and stop of each query's range instead of a boolean matrix.
"""

from dataclasses import dataclass
from functools import lru_cache

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
"""The most keys of a block that are computed at a time; their weights are added up in float32.

A float32 sum of half a million weights would lose three decimal digits; a sum of 8,192 weights loses only one.
"""

MAX_BLOCK_SCORES = 2**24
"""The largest number of scores in a block: 64 MiB. If there are many keys, a block has fewer queries."""


KeyIndices = Int[Tensor, "#batch #heads groups"]


@dataclass(frozen=True, slots=True, eq=False)
class KeyLimits:
    """A mask that allows query i only the keys from starts[batch, head, i] to stops[batch, head, i] - 1."""

    starts: Int[Tensor, "#batch #heads queries"]
    stops: Int[Tensor, "#batch #heads queries"]
    strides: tuple[int, int]  # of the batch axis and of the heads axis; 0 for an axis of size 1, which is broadcast

    @classmethod
    def of(cls, grid: Grid, mask: Mask | None) -> "KeyLimits | None":
        """Return the key range of each query; None if there is no mask, or if a query may need several ranges."""
        ranges = None if mask is None else key_ranges(grid, mask, CPU)
        if ranges is None or len(ranges.starts) > 1:
            return None
        starts, stops = (
            limits[0].expand(-1, -1, grid.queries).int().contiguous() for limits in (ranges.starts, ranges.stops)
        )
        batch_stride, head_stride, _ = strides(starts)
        return cls(starts, stops, (batch_stride, head_stride))

    def reaches(self, n_queries: int, n_keys: int) -> tuple[KeyIndices, KeyIndices]:
        """For each group of `n_queries` consecutive queries, return its first allowed key and its last allowed key + 1.

        For a group that may attend to no key, the second is not above the first. `n_keys` is the number of all keys.
        """
        # If a query may attend to no key, its start becomes n_keys, which does not lower the minimum of its group.
        starts = torch.where(self.starts < self.stops, self.starts, n_keys)
        *lead, n_all_queries = starts.shape
        n_groups = -(-n_all_queries // n_queries)
        padding = 0, n_groups * n_queries - n_all_queries
        starts_by_group = F.pad(starts, padding, value=n_keys).view(*lead, n_groups, n_queries)
        stops_by_group = F.pad(self.stops, padding).view(*lead, n_groups, n_queries)
        return starts_by_group.amin(-1), stops_by_group.amax(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The blocks of queries × keys that the C kernel computes for a call of `attend`, and their largest sizes."""

    limits: KeyLimits | None  # None = there is no mask, or it allows several ranges of keys
    bounds: Int[Tensor, "blocks 8"]  # for each block, the fields of the C struct `BlockBounds`
    n_weights: int  # in all blocks together
    max_queries: int  # of a block
    max_width: int  # the most keys of a block that are computed at a time
    max_scratch: (
        int  # the most floats that the scores, maxima and sums of a block take (see `QueryBlock` in attention.h)
    )

    @classmethod
    def of(cls, grid: Grid, mask: Mask | None) -> "Plan":
        """Divide a call into blocks. Plans are cached for masks without tensors: layers often need the same plan."""
        if mask is None or has_only_numbers(mask):
            return cached_plan(grid, mask, BLOCK_QUERIES, SCORES_IN_CACHE)
        return cls.new(grid, mask)

    @classmethod
    def new(cls, grid: Grid, mask: Mask | None) -> "Plan":
        limits = KeyLimits.of(grid, mask)
        return cls.of_bounds(limits, bounds_of(grid, mask, limits))

    @classmethod
    def of_bounds(cls, limits: KeyLimits | None, bounds: Int[Tensor, "blocks 8"]) -> "Plan":
        _, _, _, n_queries, _, n_keys, width, _ = bounds.unbind(1)
        n_parts = -(-n_keys // width.clamp(min=1))  # rounded up
        n_scratch = n_queries * (n_keys + 3 + n_parts) + 2 * width
        n_weights = int((n_queries * n_keys).sum())
        max_queries, max_width, max_scratch = (
            int(numbers.max()) if len(bounds) else 0 for numbers in (n_queries, width, n_scratch)
        )
        return cls(limits, bounds, n_weights, max_queries, max_width, max_scratch)

    def share(self, blocks: slice) -> "Plan":
        """Return a plan with only some of the blocks, for a process that computes a part of the call."""
        return self.of_bounds(self.limits, self.bounds[blocks].contiguous())


@lru_cache(8)
def cached_plan(grid: Grid, mask: Mask | None, block_queries: int, scores_in_cache: int) -> Plan:
    """Return a plan. The cache also compares the last two arguments, which are constants that tests change."""
    return Plan.new(grid, mask)


def tile_and_width(grid: Grid, bounds: Int[Tensor, " 8"]) -> tuple[Tile, int]:
    """Return a block of one head as a tile, and how many of its keys are computed at a time."""
    batch, head, first_query, n_queries, first_key, n_keys, width, _ = bounds.tolist()
    queries, keys = range(first_query, first_query + n_queries), range(first_key, first_key + n_keys)
    return Tile(grid, range(batch, batch + 1), range(head, head + 1), queries, keys), width


def has_only_numbers(mask: Mask) -> bool:
    """Return whether a mask can be a key of a cache: it, and every mask inside it, has only numbers as fields.

    False for mask classes outside of regard, since they may define == in another way.
    """
    if not type(mask).__module__.startswith("regard."):
        return False
    for name in mask.__dataclass_fields__:  # type: ignore[attr-defined]  # masks of regard are dataclasses
        value = getattr(mask, name)
        if not (isinstance(value, NUMBER_TYPES) or (isinstance(value, Mask) and has_only_numbers(value))):
            return False
    return True


def bounds_of(grid: Grid, mask: Mask | None, limits: KeyLimits | None) -> Int[Tensor, "blocks 8"]:
    """Return a row for each block (fields of the C struct `BlockBounds`), sorted by batch item, head and query.

    Tensor operations compute all blocks at once, because a call with short texts has many small blocks.
    """
    size = max(1, min(BLOCK_QUERIES, MAX_BLOCK_SCORES // max(1, grid.keys)))
    if limits is not None:
        first_key, stop_key = limits.reaches(size, grid.keys)
    else:
        blocks = spans(grid.queries, size)
        reaches = [range(grid.keys) if mask is None else mask.reach(grid, queries) for queries in blocks]
        first_key = torch.tensor([reach.start for reach in reaches], dtype=torch.int64, device=CPU)
        stop_key = torch.tensor([reach.stop for reach in reaches], dtype=torch.int64, device=CPU)
    batch, head = (torch.arange(n, device=CPU) for n in (grid.batch, grid.heads))
    first_query = torch.arange(0, grid.queries, size, device=CPU)
    n_queries = (grid.queries - first_query).clamp(max=size)
    n_keys = (stop_key - first_key).clamp(min=0)
    width = n_keys.minimum((SCORES_IN_CACHE // n_queries).clamp(1, KEYS_AT_ONCE))
    offset = torch.zeros_like(n_keys)
    columns = batch[:, None, None], head[:, None], first_query, n_queries, first_key, n_keys, width, offset
    return torch.stack(torch.broadcast_tensors(*columns), dim=-1).view(-1, 8)  # type: ignore[no-untyped-call]
