"""The attention weights of one head, or the mean over all heads, as maps at several resolutions (levels).

The map of level L has one entry (cell) for each square of 2^L queries × 2^L keys: the mean or the largest of the
weights in the square. Squares at the right and bottom edges may be smaller.

    level < 5      the map is computed from queries and keys when it is read
    level >= 5     the map is computed from stored numbers: the sum and the largest weight of each square of level 5

The stored numbers are computed once, one row of squares after the other. For softmax, each query's log-sum-exp is
stored too. For a part of a map below level 5, only the scores of this part are then computed:

    weight = exp(score / temperature - log_sum)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.grid.grid import Tile, spans
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.weights import scores_of, weights_of

Pool = Literal["mean", "max"]

STORED_LEVEL = 5
"""The sum and the largest weight of each square of 2^5 × 2^5 weights are stored, and used for all larger squares."""

KEYS_AT_ONCE = 2**14
"""The most keys whose scores are computed at one time, so that the scores fit into the processor's cache."""

WEIGHTS_AT_ONCE = 2**19
"""The most weights that `Pyramid.read` computes at one time; a single row of squares may have more."""

Weights = Float[Tensor, "queries keys"]
Shown = tuple[Sequence[int], Sequence[int]]
BoolMask = Bool[Tensor, "queries keys"] | None
Cells = Float[Tensor, "rows columns"]


@dataclass(frozen=True, slots=True)
class Part:
    """The attention weights of some queries on a range of keys, in one head or summed over several heads.

    Attributes:
        keep: True where the query may attend to the key in at least one of the heads; None = True everywhere.
    """

    keys: range
    weights: Weights
    keep: BoolMask

    def __add__(self, other: "Part") -> "Part":
        keep = None if self.keep is None or other.keep is None else self.keep | other.keep
        return Part(self.keys, self.weights + other.weights, keep)


class HeadWeights:
    """The attention weights of one head of batch item 0, computed for any block of queries × keys that is asked for."""

    def __init__(self, pattern: Pattern, head: int) -> None:
        self.call, self.head = pattern.call, head
        self.tile = pattern.grid.whole().part(batch=range(1), heads=range(head, head + 1))
        normalise = self.call.normalise
        self.softmax = normalise if isinstance(normalise, Softmax) and normalise.temperature > 0 else None
        self.log_sums = torch.zeros(pattern.shape[2], 1, dtype=self.call.weights_dtype, device=self.call.device)

    def all_weights(self, queries: range) -> list[Part]:
        """Return the weights of some queries on all keys to which they may attend, one `Part` for each range of keys.

        For a softmax, store the log-sum-exp of each query in `self.log_sums`. Each range then has at most KEYS_AT_ONCE
        keys and begins at a multiple of 32. For temperature 0 and for other normalisers, one range has all keys.
        """
        if self.softmax is None:
            return [self.weights(queries, range(self.tile.shape[3]))]
        reach = self.reach(queries)
        starts = range(first_of_square(reach.start), reach.stop, KEYS_AT_ONCE) if reach else []
        ranges = [range(start, min(start + KEYS_AT_ONCE, reach.stop)) for start in starts]
        parts = [(keys, *self.masked_scores(queries, keys)) for keys in ranges]
        log_sums = self.log_sums_of(queries, [scores for _, scores, _ in parts])
        self.log_sums[queries.start : queries.stop] = log_sums
        return [Part(keys, (scores - log_sums).exp_(), keep) for keys, scores, keep in parts]

    def weights(self, queries: range, keys: range) -> Part:
        """Return the weights of some queries on a range of keys.

        For a softmax, `all_weights` must have been called for these queries: it stores their log-sum-exps.
        """
        if self.softmax is None:
            tile = self.tile.part(queries=queries, keys=keys)
            return Part(keys, weights_of(self.call, tile)[0, 0], self.keep(tile))
        scores, keep = self.masked_scores(queries, keys)
        return Part(keys, (scores - self.log_sums[queries.start : queries.stop]).exp_(), keep)

    def masked_scores(self, queries: range, keys: range) -> tuple[Weights, BoolMask]:
        """Return the scores divided by the temperature (-∞ for masked keys), and the boolean mask."""
        assert self.softmax is not None
        tile = self.tile.part(queries=queries, keys=keys)
        scores, keep = scores_of(self.call, tile)[0, 0], self.keep(tile)
        if self.softmax.temperature != 1:
            scores = scores / self.softmax.temperature
        return scores if keep is None else torch.where(keep, scores, -math.inf), keep

    def keep(self, tile: Tile) -> BoolMask:
        keep = self.call.keep(tile)
        return None if keep is None or bool(keep.all()) else keep.expand(tile.shape)[0, 0]

    def log_sums_of(self, queries: range, scores: list[Float[Tensor, "queries _"]]) -> Float[Tensor, "queries 1"]:
        """Return the log-sum-exp of each query's masked scores and of the head's sink, a score that has no key.

        For a query that may attend to no key, the result is 0, so that its weights exp(-∞ - 0) are 0.
        """
        assert self.softmax is not None
        parts = [self.log_sums.new_full((len(queries), 1), -math.inf)]  # without scores, torch.cat needs a tensor too
        parts += [torch.logsumexp(part, dim=-1, keepdim=True) for part in scores]
        log_sums = torch.logsumexp(torch.cat(parts, dim=-1), dim=-1, keepdim=True)
        has_no_key = log_sums == -math.inf
        if self.softmax.sinks is not None:
            sink = self.softmax.sinks[self.head].to(log_sums) / self.softmax.temperature
            log_sums = torch.logaddexp(log_sums, sink)
        log_sums = log_sums.masked_fill(has_no_key, 0.0)
        if not bool(log_sums.isfinite().all()):
            raise ValueError("a score is NaN or infinite, so the head has no map; check the model's parameters.")
        return log_sums

    def reach(self, queries: range) -> range:
        mask, grid = self.call.mask, self.call.grid
        return range(grid.keys) if mask is None else mask.reach(grid, queries)


class Pyramid:
    """Attention weights of batch item 0 (of one head, or the mean over heads), pooled in squares of 2^level × 2^level.

    If `shown` is given, the maps contain only these queries and keys, numbered 0, 1, 2, …: a square consists of 2^level
    shown queries × 2^level shown keys.

    >>> import torch
    >>> from regard import attend, Causal
    >>> pyramid = Pyramid(attend(*torch.eye(4).expand(3, 1, 1, 4, 4), mask=Causal()).pattern, head=0)
    >>> pyramid.read(0, range(2), range(2), "max")
    tensor([[1.0000,    nan],
            [0.3775, 0.6225]])
    >>> pyramid.read(1, range(2), range(2), "mean")
    tensor([[0.5000,    nan],
            [0.2446, 0.2554]])
    """

    def __init__(self, pattern: Pattern, head: int | None, shown: Shown | None = None) -> None:
        """Store the arguments; nothing is computed yet.

        Args:
            head: the index of the head; None = the mean over all heads.
            shown: the positions of the queries and of the keys that the maps show, in ascending order; None = all. The
                weights are still normalised over all keys.
        """
        heads = range(pattern.n_heads) if head is None else (head,)
        self.heads = [HeadWeights(pattern, number) for number in heads]
        self.shown = None if shown is None else [torch.tensor(positions, dtype=torch.long) for positions in shown]
        self.lengths = pattern.shape[2:] if shown is None else (len(shown[0]), len(shown[1]))
        self.row_is_stored = [False] * self.shape(STORED_LEVEL)[0]
        self.sums = torch.zeros(self.shape(STORED_LEVEL))
        self.largest = torch.full(self.shape(STORED_LEVEL), -math.inf)

    def shape(self, level: int) -> tuple[int, int]:
        """Return the numbers of rows and columns of the map in which each cell pools 2^level × 2^level weights."""
        n_queries, n_keys = self.lengths
        return -(-n_queries >> level), -(-n_keys >> level)

    @torch.no_grad()
    def compute(self, row: int) -> None:
        """Compute and store one row of squares of 32 × 32 weights (level 5), unless the row is stored already."""
        if self.row_is_stored[row]:
            return
        shown_queries = self.tokens(range(row, row + 1), STORED_LEVEL, axis=2)
        queries = self.positions(shown_queries, axis=2)
        first_head, *other_heads = self.heads
        parts = first_head.all_weights(queries)
        for head in other_heads:
            parts = [part + other for part, other in zip(parts, head.all_weights(queries), strict=True)]
        for part in parts if self.shown is None else [self.joined(shown_queries, parts)]:
            if part.keys:
                columns = slice(part.keys.start >> STORED_LEVEL, -(-part.keys.stop >> STORED_LEVEL))
                sums, largest = self.pooled(part, STORED_LEVEL)
                self.sums[row, columns], self.largest[row, columns] = sums[0], largest[0]
        self.row_is_stored[row] = True

    def pooled(self, part: Part, level: int) -> tuple[Cells, Cells]:
        """Divide `part` by the number of heads; return the sum and the maximum of each 2^level × 2^level square."""
        weights = part.weights / len(self.heads) if len(self.heads) > 1 else part.weights
        return pool_squares(weights, part.keep, 1 << level)

    @torch.no_grad()
    def read(self, level: int, rows: range, columns: range, pool: Pool) -> Cells:
        """Return some rows and columns of the map of the weights, pooled in squares of 2^level × 2^level.

        A cell of the result is the mean or the maximum (`pool`) of its square; NaN if the whole square is masked.

        Raises:
            ValueError: the level is 5 (STORED_LEVEL) or higher, and `compute` has not yet been called for all rows of
                level 5; or a score is NaN or infinite.
        """
        if level < STORED_LEVEL:
            sums, largest = self.computed_squares(level, rows, columns)
        elif not all(self.row_is_stored):
            missing = self.row_is_stored.count(False)
            raise ValueError(
                f"level {level} needs all rows of level {STORED_LEVEL}; call compute(row) for {missing} more rows."
            )
        else:
            side = 1 << (level - STORED_LEVEL)
            stored_cells = tuple(slice(cells.start * side, cells.stop * side) for cells in (rows, columns))
            sums = over_squares(self.sums[stored_cells], side, partial(torch.sum, dtype=torch.float64), 0.0)
            largest = over_squares(self.largest[stored_cells], side, torch.amax, -math.inf)
        sizes = self.sizes(rows, level, axis=2)[:, None] * self.sizes(columns, level, axis=3)
        cells = sums / sizes if pool == "mean" else largest
        return cells.float().masked_fill(largest == -math.inf, math.nan)

    def computed_squares(self, level: int, rows: range, columns: range) -> tuple[Cells, Cells]:
        """Compute the sum and the largest weight of each square of 2^level × 2^level weights from queries and keys."""
        shown_keys = self.tokens(columns, level, axis=3)
        keys = self.positions(shown_keys, axis=3)
        parts = []
        queries_at_once = WEIGHTS_AT_ONCE // max(1, len(keys))
        for span in spans(len(rows), max(1, queries_at_once >> level)):
            shown_queries = self.tokens(rows[span.start : span.stop], level, axis=2)
            queries = self.positions(shown_queries, axis=2)
            reach = self.heads[0].reach(queries)
            if reach.start >= keys.stop or keys.start >= reach.stop:
                shape = len(span), len(columns)
                parts.append((torch.zeros(shape), torch.full(shape, -math.inf)))
                continue
            if self.heads[0].softmax is not None:
                for row in range(shown_queries.start >> STORED_LEVEL, -(-shown_queries.stop >> STORED_LEVEL)):
                    self.compute(row)  # stores the log-sum-exps that `weights` needs
            part = reduce(Part.__add__, (head.weights(queries, keys) for head in self.heads))
            parts.append(self.pooled(self.shown_part(part, shown_queries), level))
        sums, largest = (torch.cat(cells) for cells in zip(*parts, strict=True))
        return sums, largest

    def shown_part(self, part: Part, shown_queries: range) -> Part:
        """Remove the queries and keys that are not shown. The `keys` of the result are indices among the shown keys."""
        if self.shown is None:
            return part
        rows, columns = self.shown
        rows = rows[shown_queries.start : shown_queries.stop] - self.positions(shown_queries, axis=2).start
        start, stop = torch.searchsorted(columns, torch.tensor([part.keys.start, part.keys.stop])).tolist()
        columns = columns[start:stop] - part.keys.start
        rows, columns = rows.to(part.weights.device)[:, None], columns.to(part.weights.device)
        keep = None if part.keep is None else part.keep[rows, columns]
        return Part(range(start, stop), part.weights[rows, columns], keep)

    def joined(self, shown_queries: range, parts: list[Part]) -> Part:
        """Join the shown keys of all parts into one part that begins at a multiple of 32, the edge of a square.

        The parts have consecutive ranges of keys. Weights before the first key of the first part are 0.
        """
        selected = [self.shown_part(part, shown_queries) for part in parts]
        start = min((part.keys.start for part in selected), default=0)
        keys = range(first_of_square(start), max((part.keys.stop for part in selected), default=0))
        weights = self.heads[0].log_sums.new_zeros(len(shown_queries), len(keys))
        keep = torch.zeros(weights.shape, dtype=torch.bool, device=weights.device)
        for part in selected:
            columns = slice(part.keys.start - keys.start, part.keys.stop - keys.start)
            weights[:, columns] = part.weights
            keep[:, columns] = True if part.keep is None else part.keep
        return Part(keys, weights, keep)

    def positions(self, tokens: range, axis: int) -> range:
        """Return the text positions from the first to the last of some shown queries (axis 2) or keys (axis 3)."""
        if self.shown is None or not tokens:
            return tokens
        shown = self.shown[axis - 2]
        return range(int(shown[tokens[0]]), int(shown[tokens[-1]]) + 1)

    def tokens(self, cells: range, level: int, axis: int) -> range:
        """Return the queries that the map rows in `cells` pool (axis 2), or the keys of the map columns (axis 3)."""
        n_tokens = self.lengths[axis - 2]
        return range(min(cells.start << level, n_tokens), min(cells.stop << level, n_tokens))

    def sizes(self, cells: range, level: int, axis: int) -> Int[Tensor, " cells"]:
        """Return how many queries each map row in `cells` pools (axis 2), or how many keys each map column (axis 3)."""
        edges = torch.arange(cells.start, cells.stop + 1) << level
        return edges.clamp(max=self.lengths[axis - 2]).diff()


def stored_bytes(pattern: Pattern) -> int:
    """Return the bytes of a `Pyramid` (pooled weights) of one head: two float32 numbers for each 32 × 32 square."""
    n_rows, n_columns = (-(-length >> STORED_LEVEL) for length in pattern.shape[2:])
    bytes_per_square = 2 * torch.float32.itemsize
    return bytes_per_square * n_rows * n_columns


def first_of_square(token: int) -> int:
    """Return the first query or key in the same square as `token`: squares begin at multiples of 32."""
    return token >> STORED_LEVEL << STORED_LEVEL


def pool_squares(weights: Weights, keep: BoolMask, side: int) -> tuple[Cells, Cells]:
    """Return the sum and the largest weight of each square of `side` × `side` weights, as tensors on the CPU.

    The largest weight of a square in which no query may attend to any key is -∞.
    """
    sums = over_squares(weights, side, torch.sum, 0.0)
    allowed = weights if keep is None else weights.masked_fill(~keep, -math.inf)
    return sums.cpu(), over_squares(allowed, side, torch.amax, -math.inf).cpu()


def over_squares(numbers: Weights, side: int, combine: Callable[[Tensor, int], Tensor], padding: float) -> Cells:
    """Return the sum or maximum (`combine`) of each `side` × `side` square; `padding` fills up squares at the edges."""
    right, bottom = -numbers.shape[1] % side, -numbers.shape[0] % side
    if right or bottom:
        numbers = F.pad(numbers, (0, right, 0, bottom), value=padding)
    columns = combine(numbers.reshape(-1, side, numbers.shape[1]), 1)
    return combine(columns.reshape(len(columns), -1, side), 2)
