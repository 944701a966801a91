"""The fast way on a CPU: softmax attention and everything that is asked of it in one pass, all cores busy.

For a block of queries of one head, over all keys that it can reach:

    scores   = query · keyᵀ                 one matrix product, masked where the mask may bar something
    weights  = softmax(scores)              with every statistic, in `rows.c`, while they are in the cache
    context  = weights · value              one matrix product, where the context is asked for

Blocks are shared out over threads, and what each of them adds to the columns is added up in the blocks' own order, in
float64: the same numbers on any number of threads.
"""

import math
from collections.abc import Callable, Iterator
from ctypes import byref
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.grid import Grid, Tile, spans
from regard.attention.normalise.softmax import Softmax
from regard.attention.precision import as_typed
from regard.attention.scores.dot import ScaledDot
from regard.attention.statistics import compiled
from regard.attention.statistics.threads import in_order
from regard.attention.summary import Ask, Summary, Top

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

SCORES_IN_CACHE = 2**19
"""Scores of a block, while that leaves it enough queries: 2 MiB of float32, what a core's own cache holds."""

SCORES_AT_MOST = 2**24
"""Scores of a block, however many keys there are: 64 MiB."""

FEWEST, MOST = 128, 256
"""Queries in a block: with fewer the matrix products slow down, with more a short text is one block for one core."""

Report = Callable[[int, int], None]
"""Is told how many weights are done, and of how many."""


def why_not(asked: "Pattern") -> str | None:
    """Why a pattern cannot be gone through this way; None if it can."""
    if asked.query.device.type != "cpu":
        return "it runs on a CPU"
    if not isinstance(asked.normalise, Softmax) or asked.normalise.temperature == 0:
        return "it has softmax alone"
    if asked.dtype == torch.float64:
        return "it computes in float32"
    if compiled.regard_rows() is None:
        return "no C compiler was found"
    return None


@torch.inference_mode(False)
@torch.no_grad()
def read(
    asked: "Pattern", ask: Ask, *, contexts: bool, report: Report | None = None
) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
    """The context, if it is wanted, and the summary of a pattern that `why_not` has nothing against."""
    with as_typed(asked.device):
        totals, done = Totals.of(asked, ask, contexts), 0
        work = (block for head in heads_of(asked, contexts) for block in blocks_of(head))
        for block, columns in in_order(work, lambda block: read_block(block, ask, totals)):
            totals.add(block, columns)
            done += len(block.queries) * asked.grid.keys
            if report is not None:
                report(done, asked.shape.numel())
    context = None if totals.context is None else totals.context.to(asked.value.dtype)
    return context, totals.summary(ask)


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """One head of one batch item, its keys made ready for the products.

    Attributes:
        keys: the keys, scaled and turned on their side, where the score is a plain dot product.
        sink: the head's own extra score, -∞ for none.
    """

    asked: "Pattern"
    batch: int
    head: int
    query: Float[Tensor, "queries d_query"]
    keys: Float[Tensor, "d_key keys"] | None
    value: Float[Tensor, "keys d_value"] | None
    sink: float


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some queries of a head, and the range of keys outside of which they see nothing."""

    head: Head
    queries: range
    keys: range

    @property
    def tile(self) -> Tile:
        """The same as a part of the grid."""
        head, whole = self.head, self.head.asked.grid.whole()
        at = (range(head.batch, head.batch + 1), range(head.head, head.head + 1))
        return whole.part(*at, self.queries, self.keys)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What a block adds to the columns: to its range of keys, and to consecutive rows of the map."""

    received: Float[Tensor, " keys"] | None
    pooled: Float[Tensor, "rows columns"] | None
    first_row: int


@dataclass(slots=True, eq=False)
class Totals:
    """The results: blocks write their own rows, and what they add to the columns is added up in order."""

    grid: Grid
    ask: Ask
    context: Float[Tensor, "batch heads queries d_value"] | None
    rows: dict[str, Float[Tensor, "batch heads queries"]]
    received: Float[Tensor, "batch heads keys"] | None
    groups: Float[Tensor, "batch heads queries groups"] | None
    top: Top | None
    pooled: Float[Tensor, "batch heads rows columns"] | None
    cell_of_row: Int[Tensor, " queries"]
    start_of_cell: Int[Tensor, " cells"]

    @classmethod
    def of(cls, asked: "Pattern", ask: Ask, contexts: bool) -> "Totals":
        """All of them, at 0."""
        grid, per_query = asked.grid, asked.grid.shape[:3]
        named = {"entropy": ask.entropy, "distance": ask.distance, "first": ask.first}
        named |= {"own": ask.own, "previous": ask.previous, "inverse": True, "log_sum": True}
        tops = (*per_query, ask.top or 0)
        rows, columns = ask.pooled or (0, 0)
        return cls(
            grid=grid,
            ask=ask,
            context=torch.zeros(*per_query, asked.value.shape[-1]) if contexts else None,
            rows={name: torch.zeros(per_query) for name, wanted in named.items() if wanted},
            received=zeros64(grid.batch, grid.heads, grid.keys) if ask.received else None,
            groups=None if ask.groups is None else torch.zeros(*per_query, len(ask.groups)),
            top=None if ask.top is None else Top(torch.zeros(tops), torch.full(tops, -1)),
            pooled=zeros64(grid.batch, grid.heads, rows, columns) if ask.pooled else None,
            cell_of_row=torch.arange(grid.queries) * rows // max(1, grid.queries),
            start_of_cell=-(-torch.arange(columns + 1) * grid.keys // max(1, columns)),
        )

    def add(self, block: Block, columns: Columns) -> None:
        """Add what a block gave to the columns."""
        batch, head, keys = block.head.batch, block.head.head, slice(block.keys.start, block.keys.stop)
        if self.received is not None and columns.received is not None:
            self.received[batch, head, keys] += columns.received
        if self.pooled is not None and columns.pooled is not None:
            rows = self.pooled[batch, head, columns.first_row : columns.first_row + len(columns.pooled)]
            if self.ask.reduce == "max":
                torch.maximum(rows, columns.pooled.double(), out=rows)
            else:
                rows += columns.pooled

    def summary(self, ask: Ask) -> Summary:
        """The answer."""
        pooled = self.pooled
        if pooled is not None and ask.reduce == "mean":
            pooled = pooled / (self.cell_of_row.bincount()[:, None] * self.start_of_cell.diff())
        return Summary(
            ask=ask,
            received=None if self.received is None else self.received.float(),
            groups=self.groups,
            top=self.top,
            pooled=None if pooled is None else pooled.float(),
            **{name: rows for name, rows in self.rows.items() if name not in ("inverse", "log_sum")},
        )


def zeros64(*shape: int) -> Tensor:
    """Where sums over many queries are kept."""
    return torch.zeros(shape, dtype=torch.float64)


def heads_of(asked: "Pattern", contexts: bool) -> Iterator[Head]:
    """Every head of every batch item; keys and values that several share are made ready once."""
    normalise, score, grid = asked.normalise, asked.score, asked.grid
    assert isinstance(normalise, Softmax)
    scale = None
    if isinstance(score, ScaledDot) and score.softcap is None and score.bias is None:
        scale = score.factor(asked.key.shape[-1]) / normalise.temperature
    group, shared = grid.heads // asked.key.shape[1], None
    for batch in range(grid.batch):
        for head in range(grid.heads):
            key, value = (item(part, batch, head // group) for part in (asked.key, asked.value))
            if shared is None or head % group == 0:
                keys = None if scale is None else (key.float().T * scale).contiguous()
                shared = keys, value.float() if contexts else None
            sink = -math.inf if normalise.sinks is None else float(normalise.sinks[head]) / normalise.temperature
            yield Head(asked, batch, head, item(asked.query, batch, head), *shared, sink)


def item(part: Float[Tensor, "_batch _heads tokens d"], batch: int, head: int) -> Float[Tensor, "tokens d"]:
    """One head of one batch item; a batch of 1 serves every item."""
    return part[batch if len(part) > 1 else 0, head]


def blocks_of(head: Head) -> Iterator[Block]:
    """A head's queries in blocks; how many are in one follows from the number of keys alone."""
    grid, mask = head.asked.grid, head.asked.mask
    keys = max(1, grid.keys)
    enough = min(FEWEST, SCORES_AT_MOST // keys)
    for queries in spans(grid.queries, max(1, enough, min(MOST, SCORES_IN_CACHE // keys))):
        yield Block(head, queries, range(grid.keys) if mask is None else mask.reach(grid, queries))


@torch.no_grad()
def read_block(block: Block, ask: Ask, totals: Totals) -> Columns:
    """Fill in the rows of a block, and give what it adds to the columns."""
    n_rows, n_keys = len(block.queries), len(block.keys)
    at = (block.head.batch, block.head.head, slice(block.queries.start, block.queries.stop))
    first_row = int(totals.cell_of_row[block.queries.start])
    n_lines = int(totals.cell_of_row[block.queries.stop - 1]) - first_row + 1
    received = torch.zeros(n_keys) if ask.received else None
    pooled = torch.zeros(n_lines, ask.pooled[1]) if ask.pooled else None
    columns = Columns(received, pooled, first_row)
    if n_keys == 0:
        return columns
    scores = scores_of(block)
    rows = {name: part[at] for name, part in totals.rows.items()}
    cell_of_row = (totals.cell_of_row[at[2]] - first_row).int()
    start_of_cell = (totals.start_of_cell.clamp(block.keys.start, block.keys.stop) - block.keys.start).int()
    column = torch.empty(n_keys)
    call = compiled.Block(
        scores=scores.data_ptr(),
        stride=n_keys,
        rows=n_rows,
        keys=n_keys,
        first_key=block.keys.start,
        position=block.queries.start + totals.grid.offset,
        sink=block.head.sink,
        received=pointer(received),
        top=ask.top or 0,
        top_weights=pointer(None if totals.top is None else totals.top.weights[at]),
        top_keys=pointer(None if totals.top is None else totals.top.keys[at]),
        cells=ask.pooled[1] if ask.pooled else 0,
        largest=ask.reduce == "max",
        cell_of_row=cell_of_row.data_ptr(),
        start_of_cell=start_of_cell.data_ptr(),
        pooled=pointer(pooled),
        column=column.data_ptr(),
        **{name: part.data_ptr() for name, part in rows.items()},
    )
    function = compiled.regard_rows()
    assert function is not None
    function(byref(call))
    keys = slice(block.keys.start, block.keys.stop)
    if totals.groups is not None and ask.groups is not None:
        totals.groups[at] = scores @ ask.groups[:, keys].float().T * rows["inverse"][:, None]
    if totals.context is not None and block.head.value is not None:
        torch.mm(scores, block.head.value[keys], out=totals.context[at]).mul_(rows["inverse"][:, None])
    return columns


def scores_of(block: Block) -> Float[Tensor, "queries keys"]:
    """The masked scores of a block, in memory that the thread uses again and again."""
    head, asked, tile, first = block.head, block.head.asked, block.tile, block.keys.start
    scores = scratch(len(block.queries) * len(block.keys)).view(len(block.queries), len(block.keys))
    if head.keys is None:
        assert isinstance(asked.normalise, Softmax)
        torch.div(asked._scores(tile)[0, 0], asked.normalise.temperature, out=scores)
    else:
        query = head.query[block.queries.start : block.queries.stop].float()
        torch.mm(query, head.keys[:, first : block.keys.stop], out=scores)
    for keys in uncertain(block):
        keep = asked._keep(tile.part(keys=keys))
        if keep is not None:
            scores[:, keys.start - first : keys.stop - first].masked_fill_(~keep[0, 0], -math.inf)
    return scores


def uncertain(block: Block) -> Iterator[range]:
    """The keys of a block that the mask may bar: those before and after the ones that it surely keeps."""
    head, keys = block.head, block.keys
    mask, plain = head.asked.mask, head.keys is not None
    sure = mask.certain(head.asked.grid, block.queries) if mask is not None and plain else range(0)
    if not sure:
        yield keys
    else:
        yield from filter(len, (range(keys.start, sure.start), range(sure.stop, keys.stop)))


MEMORY = local()


def scratch(n: int) -> Float[Tensor, " n"]:
    """Memory for so many numbers, the same for every block that a thread goes through."""
    if getattr(MEMORY, "numbers", None) is None or len(MEMORY.numbers) < n:
        MEMORY.numbers = torch.empty(n)
    return MEMORY.numbers[:n]


def pointer(tensor: Tensor | None) -> int | None:
    """Where a tensor's numbers lie; None for none."""
    return None if tensor is None else tensor.data_ptr()
