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
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.grid.grid import Tile, spans
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.weights import scores_of, weights_of

Pool = Literal["mean", "max"]

STORED_LEVEL = 5
"""The sum and the largest weight of each square of 2^5 × 2^5 weights are stored, and used for all larger squares."""

WEIGHTS_AT_ONCE = 2**19
"""The most weights that `Pyramid.read` computes at one time; a single row of squares may have more."""

Weights = Float[Tensor, "queries keys"]
Shown = tuple[Sequence[int], Sequence[int]]
"""The positions of the shown queries, and of the shown keys."""

BoolMask = Bool[Tensor, "queries keys"] | None
Cells = Float[Tensor, "rows columns"]


@dataclass(frozen=True, slots=True)
class Part:
    """The attention weights of some queries on a range of keys, in one head or summed over several heads.

    Attributes:
        keys: the positions of the keys; after `Pyramid.shown_part`, their indices among the shown keys.
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

    def all_weights(self, queries: range, keys: range) -> Part:
        """Return the weights of some queries on a range of keys that contains every key to which they may attend.

        For a softmax, store the log-sum-exp of each query in `self.log_sums`.
        """
        if self.softmax is None:
            return self.weights(queries, keys)
        scores, keep = self.masked_scores(queries, keys)
        log_sums = self.log_sums_of(scores)
        self.log_sums[queries.start : queries.stop] = log_sums
        return Part(keys, scores.sub_(log_sums).exp_(), keep)

    def weights(self, queries: range, keys: range) -> Part:
        """Return the weights of some queries on a range of keys.

        For a softmax, `all_weights` must have been called for these queries: it stores their log-sum-exps.
        """
        if self.softmax is None:
            tile = self.tile.part(queries=queries, keys=keys)
            return Part(keys, weights_of(self.call, tile)[0, 0], self.keep(tile))
        scores, keep = self.masked_scores(queries, keys)
        return Part(keys, scores.sub_(self.log_sums[queries.start : queries.stop]).exp_(), keep)

    def masked_scores(self, queries: range, keys: range) -> tuple[Weights, BoolMask]:
        """Return the scores divided by the temperature (-∞ for masked keys), and the boolean mask."""
        assert self.softmax is not None
        tile = self.tile.part(queries=queries, keys=keys)
        scores, keep = scores_of(self.call, tile)[0, 0] / self.softmax.temperature, self.keep(tile)
        if keep is not None:
            scores.masked_fill_(~keep, -math.inf)
        return scores, keep

    def keep(self, tile: Tile) -> BoolMask:
        keep = self.call.keep(tile)
        return None if keep is None or bool(keep.all()) else keep.expand(tile.shape)[0, 0]

    def log_sums_of(self, scores: Weights) -> Float[Tensor, "queries 1"]:
        """Return the log-sum-exp of each query's masked scores and of the head's sink, a score that has no key.

        For a query that may attend to no key, the result is 0, so that its weights exp(-∞ - 0) are 0.
        """
        assert self.softmax is not None
        log_sums = torch.logsumexp(scores, dim=-1, keepdim=True)
        has_no_key = log_sums == -math.inf
        if self.softmax.sinks is not None:
            sink = self.softmax.sinks[self.head].to(log_sums) / self.softmax.temperature
            log_sums = torch.logaddexp(log_sums, sink)
        log_sums = log_sums.masked_fill(has_no_key, 0.0)
        if not bool(log_sums.isfinite().all()):
            raise ValueError("a score is NaN or infinite, so the head has no map; check the model's parameters.")
        return log_sums


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
        self.mask, self.grid = pattern.mask, pattern.grid
        self.queries, self.keys = (range(self.grid.queries), range(self.grid.keys)) if shown is None else shown
        self.row_is_stored = [False] * self.shape(STORED_LEVEL)[0]
        self.sums = torch.zeros(self.shape(STORED_LEVEL))
        self.largest = torch.full(self.shape(STORED_LEVEL), -math.inf)

    def shape(self, level: int) -> tuple[int, int]:
        """Return the numbers of rows and columns of the map in which each cell pools 2^level × 2^level weights."""
        return n_cells(len(self.queries), level), n_cells(len(self.keys), level)

    @torch.no_grad()
    def compute(self, row: int) -> None:
        """Compute and store one row of squares of 32 × 32 weights (level 5), unless the row is stored already."""
        if self.row_is_stored[row]:
            return
        shown_queries = positions_in(range(row, row + 1), STORED_LEVEL, self.queries)
        queries = span_of(shown_queries)
        keys = self.from_edge_of_square(self.reach(queries))
        first_head, *other_heads = self.heads
        part = sum(
            (head.all_weights(queries, keys) for head in other_heads), start=first_head.all_weights(queries, keys)
        )
        part = self.shown_part(part, shown_queries)
        if part.keys:
            # part.keys begins at the first key of a square (see `from_edge_of_square`)
            columns = slice(part.keys.start >> STORED_LEVEL, n_cells(part.keys.stop, STORED_LEVEL))
            self.sums[row, columns], self.largest[row, columns] = self.pooled(part, STORED_LEVEL)
        self.row_is_stored[row] = True

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
            sums, largest = pool_squares(self.sums[stored_cells].double(), self.largest[stored_cells], side)
        n_queries, n_keys = counts_in(rows, level, self.queries), counts_in(columns, level, self.keys)
        cells = sums / (n_queries[:, None] * n_keys) if pool == "mean" else largest
        return cells.float().masked_fill(largest == -math.inf, math.nan)

    def computed_squares(self, level: int, rows: range, columns: range) -> tuple[Cells, Cells]:
        """Compute the sum and the largest weight of each square of 2^level × 2^level weights from queries and keys."""
        keys = span_of(positions_in(columns, level, self.keys))
        first_head, *other_heads = self.heads
        parts = []
        n_queries_at_once = WEIGHTS_AT_ONCE // len(keys)
        n_rows_at_once = max(1, n_queries_at_once >> level)  # a row has 2^level queries
        for span in spans(len(rows), n_rows_at_once):
            rows_at_once = rows[span.start : span.stop]
            shown_queries = positions_in(rows_at_once, level, self.queries)
            queries = span_of(shown_queries)
            reach = self.reach(queries)
            if reach.start >= keys.stop or keys.start >= reach.stop:
                shape = len(span), len(columns)
                parts.append((torch.zeros(shape), torch.full(shape, -math.inf)))
                continue
            for stored_row in {row >> (STORED_LEVEL - level) for row in rows_at_once}:
                self.compute(stored_row)  # stores the log-sum-exps that `weights` needs
            part = sum((head.weights(queries, keys) for head in other_heads), start=first_head.weights(queries, keys))
            parts.append(self.pooled(self.shown_part(part, shown_queries), level))
        return torch.cat([sums for sums, _ in parts]), torch.cat([largest for _, largest in parts])

    def reach(self, queries: range) -> range:
        return range(self.grid.keys) if self.mask is None else self.mask.reach(self.grid, queries)

    def from_edge_of_square(self, keys: range) -> range:
        """Let a range of keys begin earlier, so that its first shown key is the first of a square of level 5."""
        first_shown = bisect_left(self.keys, keys.start)
        first_of_square = first_shown - first_shown % (1 << STORED_LEVEL)
        before = self.keys[first_of_square:first_shown]
        return range(before[0], keys.stop) if before else keys

    def shown_part(self, part: Part, shown_queries: Sequence[int]) -> Part:
        """Remove the queries and keys that are not shown. The `keys` of the result are indices among the shown keys."""
        indices = range(bisect_left(self.keys, part.keys.start), bisect_left(self.keys, part.keys.stop))
        shown_keys = self.keys[indices.start : indices.stop]
        if (len(shown_queries), len(shown_keys)) == part.weights.shape:
            return Part(indices, part.weights, part.keep)
        rows = torch.tensor(shown_queries, device=part.weights.device)[:, None] - shown_queries[0]
        columns = torch.tensor(shown_keys, dtype=torch.long, device=part.weights.device) - part.keys.start
        return Part(indices, part.weights[rows, columns], None if part.keep is None else part.keep[rows, columns])

    def pooled(self, part: Part, level: int) -> tuple[Cells, Cells]:
        """Return the sum and the maximum of each 2^level × 2^level square of `part`, divided by the number of heads.

        The maximum of a square in which no query may attend to any key is -∞.
        """
        allowed = part.weights if part.keep is None else part.weights.masked_fill(~part.keep, -math.inf)
        sums, largest = pool_squares(part.weights, allowed, 1 << level)
        return (sums / len(self.heads)).cpu(), (largest / len(self.heads)).cpu()


def stored_bytes(pattern: Pattern) -> int:
    """Return the bytes of a `Pyramid` (pooled weights) of one head: two float32 numbers for each 32 × 32 square."""
    n_rows, n_columns = (n_cells(length, STORED_LEVEL) for length in pattern.shape[2:])
    bytes_per_square = 2 * torch.float32.itemsize
    return bytes_per_square * n_rows * n_columns


def n_cells(n_positions: int, level: int) -> int:
    """Return how many cells of 2^level positions each are needed for `n_positions`; the last may have fewer."""
    return -(-n_positions >> level)


def positions_in(cells: range, level: int, positions: Sequence[int]) -> Sequence[int]:
    """Return the positions that some rows (columns) of a map pool, of the `positions` of all shown queries (keys)."""
    return positions[cells.start << level : cells.stop << level]


def counts_in(cells: range, level: int, positions: Sequence[int]) -> Int[Tensor, " cells"]:
    """Return how many of the shown queries each map row pools, or how many of the shown keys each map column."""
    return torch.tensor([len(positions_in(range(cell, cell + 1), level, positions)) for cell in cells])


def span_of(positions: Sequence[int]) -> range:
    """Return all positions from the first to the last of `positions`, which are in ascending order."""
    return range(positions[0], positions[-1] + 1)


def pool_squares(weights: Weights, allowed: Weights, side: int) -> tuple[Cells, Cells]:
    """Return the sum of each `side` × `side` square of `weights`, and the maximum of each square of `allowed`."""
    sums = squares_of(weights, side, 0.0).sum(dim=1).sum(dim=2)  # faster than one sum over two axes
    # the axes are rows, side, columns, side; without axis 1, the second `side` is axis 2
    return sums, squares_of(allowed, side, -math.inf).amax(dim=1).amax(dim=2)


def squares_of(weights: Weights, side: int, padding: float) -> Float[Tensor, "rows side columns side"]:
    """Cut weights into squares of `side` × `side`; squares at the right and bottom edges are filled with `padding`."""
    right, bottom = -weights.shape[1] % side, -weights.shape[0] % side
    if right or bottom:
        weights = F.pad(weights, (0, right, 0, bottom), value=padding)
    return rearrange(weights, "(rows i) (columns j) -> rows i columns j", i=side, j=side)
