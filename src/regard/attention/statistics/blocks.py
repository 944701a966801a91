"""What is gone through together: some queries of one head, and the keys that they can reach.

A mask that keeps one range of keys for each query (causal, a window, padding, documents, and what follows from
them) needs no matrix: a block spans its queries' ranges, and each row of it is gone through within its own.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.grid import Grid, Tile, spans
from regard.attention.masks.ranges import Ranges
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

MOST = 256
"""Queries in a block: with fewer the matrix products slow down, with more it is a long wait for one core."""

SCORES_IN_CACHE = 2**19
"""Scores that a core keeps close. A block of more is gone through in parts; where twice as many queries have no more, a
block has twice as many, if no mask makes that a waste."""

KEYS_AT_ONCE = 2**13
"""Keys that are summed over in float32 before the next are: of half a million, one sum loses three digits, 64 one."""

HEADS_TO_SHARE = 8
"""Heads from which on there are blocks enough for all cores, though they are twice as large."""

SCORES_AT_MOST = 2**24
"""Scores of a block, however many keys there are: 64 MiB."""

LARGEST = torch.finfo(torch.float32).max
"""The largest number that scores may be multiplied by."""

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

    def parts(self) -> list["Block"]:
        """The same, so many keys at a time as fit the cache and may be summed at once."""
        width = max(1, min(SCORES_IN_CACHE // max(1, len(self.queries)), KEYS_AT_ONCE))
        if len(self.keys) <= width:
            return [self]
        return [replace(self, keys=self.keys[first : first + width]) for first in range(0, len(self.keys), width)]

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
    def of(cls, pattern: "Pattern") -> "Limits | None":
        """Those of a pattern's mask; None if it has none, or if that is no such mask."""
        ranges, n_queries = None if pattern.mask is None else ranges_of(pattern), pattern.grid.queries
        if ranges is None or len(ranges.starts) > 1:
            return None
        limits = (limit[0].expand(-1, -1, n_queries).int().contiguous() for limit in (ranges.starts, ranges.stops))
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


def ranges_of(pattern: "Pattern") -> Ranges | None:
    """The mask as ranges of keys; None if it is not that, or names more of them for a query than are worth a loop."""
    mask, grid, device = pattern.mask, pattern.grid, pattern.device
    if mask is None or not grid.queries:
        return Ranges.of(0, grid.keys, grid, device)
    few = mask.ranges(Grid(grid.batch, grid.heads, 1, grid.keys), device)  # as many as for all queries
    if few is None or len(few.starts) > MOST_RANGES:
        return None
    ranges = mask.ranges(grid, device)
    assert ranges is not None
    return ranges if len(ranges.starts) == 1 else ranges.some()


def blocks_of(pattern: "Pattern", limits: Limits | None) -> Iterator[Block]:
    """A pattern in blocks, head by head; how many queries are in one follows from the pattern alone."""
    grid, n_keys = pattern.grid, max(1, pattern.grid.keys)
    size = max(1, min(MOST, SCORES_AT_MOST // n_keys))
    if pattern.mask is None and 2 * size * n_keys <= SCORES_IN_CACHE and grid.batch * grid.heads >= HEADS_TO_SHARE:
        size *= 2
    queries, reaches = list(spans(grid.queries, size)), dict[tuple[int, int], list[range]]()
    for batch, head in product(range(grid.batch), range(grid.heads)):
        plane = (0, 0) if limits is None else limits.plane(batch, head)
        if plane not in reaches and limits is not None:
            reaches[plane] = limits.reaches(plane, size, grid.keys)
        elif plane not in reaches:
            reaches[plane] = [
                range(grid.keys) if pattern.mask is None else pattern.mask.reach(grid, q) for q in queries
            ]
        yield from (Block(batch, head, *both) for both in zip(queries, reaches[plane], strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """One head of one batch item, made ready for the products.

    Attributes:
        scale: what products of query and key are multiplied by; None where the score is more than that and a softcap.
        softcap: what the hyperbolic tangent of that is multiplied by, None for none.
        sink: the head's own extra score, -∞ for none.
    """

    query: Float[Tensor, "queries d_query"]
    key: Float[Tensor, "keys d_key"]
    value: Float[Tensor, "keys d_value"] | None
    scale: float | None
    softcap: float | None
    sink: float


def with_heads(pattern: "Pattern", blocks: Iterable[Block], contexts: bool) -> Iterator[tuple[Block, Head]]:
    """Each block with its head; keys and values that several heads share are made ready once."""
    normalise, score, group = pattern.normalise, pattern.score, pattern.grid.heads // pattern.key.shape[1]
    assert isinstance(normalise, Softmax)
    scale, softcap = None, None
    if isinstance(score, ScaledDot) and score.bias is None:
        scale = finite(score.factor(pattern.key.shape[-1]) / (score.softcap or normalise.temperature))
        softcap = score.softcap and finite(score.softcap / normalise.temperature)
    sinks = None if normalise.sinks is None else (normalise.sinks.float() / normalise.temperature).tolist()

    queries, keys, values = (heads_of(part, pattern.grid.batch) for part in (pattern.query, pattern.key, pattern.value))

    @lru_cache(1)
    def shared(batch: int, key_head: int) -> tuple[Tensor, Tensor | None]:
        return keys[batch][key_head].float(), values[batch][key_head].float() if contexts else None

    @lru_cache(1)
    def head(batch: int, number: int) -> Head:
        sink = -math.inf if sinks is None else sinks[number]
        return Head(queries[batch][number].float(), *shared(batch, number // group), scale, softcap, sink)

    for block in blocks:
        yield block, head(block.batch, block.head)


def finite(factor: float) -> float:
    """A factor that float32 can hold, so that 0 times it is 0."""
    return min(max(factor, -LARGEST), LARGEST)


def heads_of(part: Float[Tensor, "_batch _heads tokens d"], batch: int) -> list[tuple[Tensor, ...]]:
    """The heads of each batch item; a batch of 1 serves every item."""
    return [item.unbind() for item in part.expand(batch, -1, -1, -1).unbind()]


def scores_into(
    scores: Float[Tensor, "queries keys"], pattern: "Pattern", block: Block, head: Head, limits: Limits | None
) -> None:
    """Write the scores of a block; what `limits` bars is left to `rows.c`."""
    if head.scale is not None:
        query = head.query[block.queries.start : block.queries.stop]
        scores.addmm_(query, head.key[block.keys.start : block.keys.stop].T, beta=0, alpha=head.scale)
        if head.softcap is not None:
            scores.tanh_().mul_(head.softcap)
        if pattern.mask is None or limits is not None:
            return
    else:
        assert isinstance(pattern.normalise, Softmax)
        torch.div(pattern._scores(block.tile(pattern.grid))[0, 0], pattern.normalise.temperature, out=scores)
    tile = block.tile(pattern.grid)
    by_mask = None if pattern.mask is None or limits is not None else pattern.mask.keep(tile, pattern.device)
    for keep in (by_mask, pattern.score.keep(tile)):
        if keep is not None:
            scores.masked_fill_(~keep[0, 0], -math.inf)
