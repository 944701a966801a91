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

Rounding costs three decimal digits when half a million weights are added in float32, and one when 8,192 are.
"""

MAX_BLOCK_SCORES = 2**24
"""The largest number of scores in a block: 64 MiB. If there are many keys, a block has fewer queries."""

BATCH, HEAD, FIRST_QUERY, N_QUERIES, FIRST_KEY, N_KEYS, WIDTH, OFFSET = range(8)
"""The columns of `Plan.bounds`, which are the fields of the C struct `BlockBounds` in attention.h.

WIDTH is how many keys of the block are computed at a time. OFFSET is where the block's scores or mask begin in memory
if torch operations compute them; it is 0 in a plan, and set by `written_blocks` in engine.py.
"""

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
            numbers[0].expand(-1, -1, grid.queries).int().contiguous() for numbers in (ranges.starts, ranges.stops)
        )
        batch_stride, head_stride, _ = strides(starts)
        return cls(starts, stops, (batch_stride, head_stride))

    def reaches(self, n_queries: int, n_keys: int) -> tuple[KeyIndices, KeyIndices]:
        """Return the start and the stop of the keys to which each group of `n_queries` consecutive queries may attend.

        If a group may attend to no key, its stop is at most its start. `n_keys` is the number of all keys.
        """
        # If a query may attend to no key, its start becomes n_keys, which does not lower the minimum of its group. Its
        # stop may raise the maximum: the group then has more keys than needed, all of them masked.
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
    bounds: Int[Tensor, "blocks 8"]  # a row for each block, with the columns BATCH to OFFSET
    n_weights: int  # in all blocks together
    max_queries: int  # of a block
    max_width: int  # the most keys of a block that are computed at a time
    max_scratch: int  # the most floats that a block needs in memory (see `scratch_sizes`)

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
        def largest(numbers: Int[Tensor, " blocks"]) -> int:
            return int(numbers.max()) if len(numbers) else 0

        n_queries, width = bounds[:, N_QUERIES], bounds[:, WIDTH]
        n_weights = int((n_queries * bounds[:, N_KEYS]).sum())
        return cls(limits, bounds, n_weights, largest(n_queries), largest(width), largest(scratch_sizes(bounds)))

    def with_blocks(self, blocks: slice) -> "Plan":
        """Return a plan with only some of the blocks, for a process that computes a part of the call."""
        return self.of_bounds(self.limits, self.bounds[blocks].contiguous())


@lru_cache(8)
def cached_plan(grid: Grid, mask: Mask | None, block_queries: int, scores_in_cache: int) -> Plan:
    """Return the plan of a call, from a cache.

    The last two arguments are the constants BLOCK_QUERIES and SCORES_IN_CACHE: tests change them, and a plan made with
    other constants must not be found in the cache.
    """
    return Plan.new(grid, mask)


def scratch_sizes(bounds: Int[Tensor, "blocks 8"]) -> Int[Tensor, " blocks"]:
    """Return how many floats each block needs for the arrays of the C struct `QueryBlock` (attention.h).

    scores                              queries × keys
    rescale, total and exponent_sum     queries each
    maximum                             queries × parts of the block
    column_sums and key_sums            width each
    """
    n_queries, n_keys, width = bounds[:, N_QUERIES], bounds[:, N_KEYS], bounds[:, WIDTH]
    n_parts = -(-n_keys // width.clamp(min=1))  # n_keys / width, rounded up
    return n_queries * n_keys + 3 * n_queries + n_queries * n_parts + 2 * width


def tile_of(grid: Grid, bounds: Int[Tensor, " 8"]) -> Tile:
    """Return the block of one row of `Plan.bounds` as a tile."""
    row = bounds.tolist()
    batch, head, first_query, first_key = row[BATCH], row[HEAD], row[FIRST_QUERY], row[FIRST_KEY]
    queries, keys = range(first_query, first_query + row[N_QUERIES]), range(first_key, first_key + row[N_KEYS])
    return Tile(grid, range(batch, batch + 1), range(head, head + 1), queries, keys)


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
    """Return `Plan.bounds`: a row for each block, sorted by batch item, head and query.

    Tensor operations compute all blocks at once, because a call with short texts has many small blocks.
    """
    size = max(1, min(BLOCK_QUERIES, MAX_BLOCK_SCORES // max(1, grid.keys)))
    first_key, stop_key = keys_of_blocks(grid, mask, limits, size)
    batch, head = torch.arange(grid.batch, device=CPU)[:, None, None], torch.arange(grid.heads, device=CPU)[:, None]
    first_query = torch.arange(0, grid.queries, size, device=CPU)
    n_queries = (grid.queries - first_query).clamp(max=size)
    n_keys = (stop_key - first_key).clamp(min=0)
    width = n_keys.minimum((SCORES_IN_CACHE // n_queries).clamp(1, KEYS_AT_ONCE))
    # in the order BATCH to OFFSET; all broadcast to [batch heads blocks]
    columns = batch, head, first_query, n_queries, first_key, n_keys, width, torch.zeros_like(n_keys)
    return torch.stack(torch.broadcast_tensors(*columns), dim=-1).view(-1, 8)  # type: ignore[no-untyped-call]


def keys_of_blocks(
    grid: Grid, mask: Mask | None, limits: KeyLimits | None, size: int
) -> tuple[Int[Tensor, "*heads blocks"], Int[Tensor, "*heads blocks"]]:
    """Return the start and the stop of the keys to which each block of `size` queries may attend.

    With `limits`, the keys may differ between batch items and heads. Otherwise all heads have the same keys.
    """
    if limits is not None:
        return limits.reaches(size, grid.keys)
    blocks = spans(grid.queries, size)
    reaches = [range(grid.keys) if mask is None else mask.reach(grid, queries) for queries in blocks]
    starts, stops = [reach.start for reach in reaches], [reach.stop for reach in reaches]
    return torch.tensor(starts, dtype=torch.int64, device=CPU), torch.tensor(stops, dtype=torch.int64, device=CPU)
