"""What is gone through together: some queries of one head, and the keys that they can reach.

A mask that keeps one range of keys for each query (causal, a window, padding, documents, and what follows from
them) needs no matrix: a block spans its queries' ranges, and each row of it is gone through within its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import product

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile, spans
from regard.attention.masks.mask import Mask
from regard.attention.masks.ranges import Ranges
from regard.attention.stages import NUMBER
from regard.attention.statistics.cpu.totals import HERE

MOST = 128
"""Queries in a block: with fewer, keys and values are laid out for products more often."""

SCORES_IN_CACHE = 2**18
"""Scores that a core keeps close; a block of more is gone through in parts."""

KEYS_AT_ONCE = 2**13
"""Keys that are summed over in float32 before the next are: of half a million, one sum loses three digits, 64 one."""

SCORES_AT_MOST = 2**24
"""Scores of a block, however many keys there are: 64 MiB."""

MOST_RANGES = 16
"""Ranges of keys that a rule may name for one query before it is no longer asked for them: on a GPU each is a loop."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some queries of one head of one batch item, and the range of keys outside of which they see nothing."""

    batch: int
    head: int
    queries: range
    keys: range

    @property
    def size(self) -> int:
        """How many weights are in it."""
        return len(self.queries) * len(self.keys)

    @property
    def width(self) -> int:
        """How many keys at a time fit the cache and may be summed at once."""
        return min(len(self.keys), max(1, min(SCORES_IN_CACHE // max(1, len(self.queries)), KEYS_AT_ONCE)))

    @property
    def room(self) -> int:
        """Numbers that are kept for it, as `block` in `attention.c` has them, without the cells of a map."""
        rows, keys, width = len(self.queries), len(self.keys), self.width
        return rows * (keys + 3 + -(-keys // max(1, width))) + 2 * width

    def parts(self) -> list["Block"]:
        """The same, so many keys at a time."""
        parts = spans(len(self.keys), max(1, self.width))
        return [replace(self, keys=self.keys[part.start : part.stop]) for part in parts]

    def tile(self, grid: Grid) -> Tile:
        """The same as a part of the grid."""
        batch, head = range(self.batch, self.batch + 1), range(self.head, self.head + 1)
        return grid.whole().part(batch, head, self.queries, self.keys)


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The range of keys that each query sees, for each batch item and head of which it depends."""

    starts: Int[Tensor, "#batch #heads queries"]
    stops: Int[Tensor, "#batch #heads queries"]

    @classmethod
    def of(cls, grid: Grid, mask: Mask | None) -> "Limits | None":
        """Those of a mask; None if there is none, or if it is no such mask."""
        ranges = None if mask is None else ranges_of(grid, mask, HERE)
        if ranges is None or len(ranges.starts) > 1:
            return None
        limits = (limit[0].expand(-1, -1, grid.queries).int().contiguous() for limit in (ranges.starts, ranges.stops))
        return cls(*limits)

    def plane(self, batch: int, head: int) -> tuple[int, int]:
        """Where the limits of a head are: a size of 1 serves all."""
        return batch % len(self.starts), head % self.starts.shape[1]

    def reaches(self, plane: tuple[int, int], size: int, n_keys: int) -> list[range]:
        """What consecutive queries can see, so many of them at a time."""
        starts, stops = self.starts[plane], self.stops[plane]
        starts = torch.where(starts < stops, starts, n_keys)  # who sees nothing reaches nowhere
        beyond = 0, -len(starts) % size
        first = F.pad(starts, beyond, value=n_keys).view(-1, size).amin(1).tolist()
        last = F.pad(stops, beyond).view(-1, size).amax(1).tolist()
        return [range(*both) for both in zip(first, last, strict=True)]


def ranges_of(grid: Grid, mask: Mask | None, device: torch.device) -> Ranges | None:
    """The mask as ranges of keys; None if it is not that, or names more of them for a query than are worth a loop."""
    if mask is None or not grid.queries:
        return Ranges.of(0, grid.keys, grid, device)
    few = mask.ranges(Grid(grid.batch, grid.heads, 1, grid.keys), device)  # as many as for all queries
    if few is None or len(few.starts) > MOST_RANGES:
        return None
    ranges = mask.ranges(grid, device)
    assert ranges is not None
    return ranges if len(ranges.starts) == 1 else ranges.without_empty()


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A pattern in blocks, head by head, as its grid and its mask have it.

    Attributes:
        limits: what each query sees, where that is a range of keys.
        places: the blocks as `attention.c` takes them.
        size: how many weights are in them.
        rows: queries in the largest.
        width: keys that are gone through at a time, at most.
        room: numbers that a thread keeps for one of them.
    """

    limits: Limits | None
    blocks: tuple[Block, ...]
    places: Int[Tensor, "blocks 8"]
    size: int
    rows: int
    width: int
    room: int

    @classmethod
    def of(cls, grid: Grid, mask: Mask | None) -> "Plan":
        """That of a grid and a mask; the layers of a model often have the same, and then it is made once."""
        make = cls.made if mask is None or fixed(mask) else cls.made.__wrapped__
        return make(grid, mask, MOST, SCORES_IN_CACHE)

    @staticmethod
    @lru_cache(8)
    def made(grid: Grid, mask: Mask | None, most: int, in_cache: int) -> "Plan":
        """That of a grid and a mask, for so many queries in a block and so many scores in the cache."""
        limits = Limits.of(grid, mask)
        return planned(limits, tuple(blocks_of(grid, mask, limits)))

    def share(self, some: slice) -> "Plan":
        """A part of the blocks."""
        return planned(self.limits, self.blocks[some])


def planned(limits: Limits | None, blocks: tuple[Block, ...]) -> Plan:
    """The plan that consists of some blocks."""
    places = [(b.batch, b.head, b.queries.start, len(b.queries), b.keys.start, len(b.keys), b.width, 0) for b in blocks]
    return Plan(
        limits,
        blocks,
        torch.tensor(places, dtype=torch.int64, device=HERE).view(-1, 8),
        size=sum(block.size for block in blocks),
        rows=max((len(block.queries) for block in blocks), default=0),
        width=max((block.width for block in blocks), default=0),
        room=max((block.room for block in blocks), default=0),
    )


def fixed(mask: Mask) -> bool:
    """Whether a mask is one of ours that holds nothing but numbers, which stay what they are."""
    if not type(mask).__module__.startswith("regard."):
        return False
    held = [getattr(mask, field.name) for field in fields(mask)]  # type: ignore[arg-type]  # all of ours have fields
    return all(fixed(part) if isinstance(part, Mask) else isinstance(part, NUMBER) for part in held)


def blocks_of(grid: Grid, mask: Mask | None, limits: Limits | None) -> Iterator[Block]:
    """A grid in blocks, head by head."""
    size = max(1, min(MOST, SCORES_AT_MOST // max(1, grid.keys)))
    queries, reaches = list(spans(grid.queries, size)), dict[tuple[int, int], list[range]]()
    for batch, head in product(range(grid.batch), range(grid.heads)):
        plane = (0, 0) if limits is None else limits.plane(batch, head)
        if plane not in reaches and limits is not None:
            reaches[plane] = limits.reaches(plane, size, grid.keys)
        elif plane not in reaches:
            reaches[plane] = [range(grid.keys) if mask is None else mask.reach(grid, some) for some in queries]
        yield from (Block(batch, head, *both) for both in zip(queries, reaches[plane], strict=True))
