"""The base class of masks that allow each query one range of consecutive keys.

    a query at position p may attend to key j    if    start(p) <= j < stop(p)

A subclass defines only the limits of the range, start and stop.
"""

from abc import abstractmethod

import torch
from jaxtyping import Integer
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.lengths import shortest_and_longest
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.ranges import Ranges

Number = int | Integer[Tensor, "..."]
"""A position, a length, or a limit of a key range: an int, or a tensor that broadcasts to the shape of a tile."""


class RangeMask(Mask):
    """The base class of masks that allow each query one range of keys; a subclass only has to define `limits`."""

    offset: int | None = None
    """The key position of query 0; None = keys - queries (the queries are the last tokens)."""

    item_lengths: int | Integer[Tensor, " batch"] = 0
    """The argument `length` of `limits`: one for each batch item (e.g. its number of tokens), or an int for all."""

    @abstractmethod
    def limits(self, position: Number, length: Number, keys: int) -> tuple[Number | None, Number | None]:
        """Return (start, stop): the query may attend to the keys from start to stop - 1; None = no limit on that side.

        Implementations use only elementwise operators, since position and length may be ints or tensors. Both limits
        must be non-decreasing in the position, and monotonic (in either direction) in the length.

        Args:
            position: the key position of the query; the limits must not depend on it if `per_query` is False.
            length: the entry of `item_lengths` for the batch item of the query.
            keys: the number of all keys.
        """

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        start, stop = self._tile_limits(tile, device)
        key = tile.key_positions(device)
        if start is None:
            return key < stop  # type: ignore[operator]  # start and stop are not both None
        return key >= start if stop is None else (key >= start) & (key < stop)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        limits = self._tile_limits(grid.whole(), device)
        # Ranges.of takes limits [batch heads queries], without the axis of keys, which has size 1
        start, stop = (limit[..., 0] if isinstance(limit, Tensor) else limit for limit in limits)
        return Ranges.of(0 if start is None else start, grid.keys if stop is None else stop, grid, device)

    def reach(self, grid: Grid, queries: range) -> range:
        starts, stops = zip(*self._bounds(grid, queries), strict=True)
        return range(min(starts), max(stops))

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        if len(queries) == 1 and isinstance(self.item_lengths, int):
            return True  # with one query and one length, `reach` is exactly the key range of the query
        bounds = self._bounds(grid, queries)
        return all(bound == bounds[0] for bound in bounds)

    def check(self, grid: Grid) -> None:
        lengths = self.item_lengths
        if isinstance(lengths, int):
            return
        if lengths.ndim != 1:
            raise ValueError(
                f"{type(self).__name__} was given lengths of shape {list(lengths.shape)}; with a batch of {grid.batch} "
                f"it takes [{grid.batch}], one for each item."
            )
        if lengths.shape[0] not in (1, grid.batch):  # len() would fix the batch size of an ONNX export
            raise ValueError(
                f"{type(self).__name__} was given {len(lengths)} lengths for a batch of {grid.batch}; give one for "
                "each item."
            )

    def _tile_limits(self, tile: Tile, device: torch.device) -> tuple[Number | None, Number | None]:
        """Return (start, stop) of each query's key range; None = the range has no start, or no stop.

        The tensors have shapes that broadcast to [batch heads queries 1].
        """
        position: Number = tile.query_positions(device, self.offset) if self.per_query else 0
        length: Number = self.item_lengths
        if isinstance(length, Tensor):
            # converted to int64, because keys - length would overflow int8
            length = tile.select(length.to(device, torch.int64)[:, None, None, None])
        return self.limits(position, length, tile.grid.keys)

    def _bounds(self, grid: Grid, queries: range) -> list[tuple[int, int]]:
        """Return the key ranges (start, stop) of the first and of the last query, for the shortest and longest length.

        All other starts and stops lie between these, because `limits` is monotonic in position and length.
        """
        first_position, lengths, keys = grid.first_position(self.offset), self.item_lengths, grid.keys
        end_queries = (queries.start, queries.stop - 1) if self.per_query and len(queries) > 1 else (queries.start,)
        end_lengths = {lengths} if isinstance(lengths, int) else set(shortest_and_longest(lengths, keys))
        bounds = []
        for length in end_lengths:
            for query in end_queries:
                start, stop = self.limits(first_position + query, length, keys)
                first_key = 0 if start is None else max(0, min(start, keys))
                stop_key = keys if stop is None else max(0, min(stop, keys))
                bounds.append((first_key, stop_key))
        return bounds  # type: ignore[return-value]  # limits returns ints if position and length are ints
