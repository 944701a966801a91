"""The tiles that a kernel computes, and the tiles in which it need not apply the mask.

For a tile of queries, the mask bars all keys outside of one range for every query, and keeps all keys inside of a
smaller range for every query. These two ranges have four borders: between the first two the mask is applied, between
the middle two every weight is kept, between the last two the mask is applied again. For a tile of keys there are four
such borders among the queries. Computing the borders takes time that grows with the length, and reads nothing back
from the GPU.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.grid.grid import Grid
from regard.attention.masks.ranges import Ranges

Limits = Int[Tensor, "ranges #batch #heads queries 2"]
OneSide = Int[Tensor, "ranges #batch #heads queries"]
Borders = Int[Tensor, "ranges #batch #heads tiles 4"]


def limits_of(ranges: Ranges, grid: Grid) -> Limits:
    """Return start and stop of every query's key ranges, side by side."""
    limits = torch.stack([ranges.starts, ranges.stops], dim=-1).int()
    return limits.expand(-1, -1, -1, grid.queries, -1)


def along_keys(limits: Limits, tile: int, step: int) -> Borders:
    """Return the borders of each tile of queries, as keys; they are whole multiples of `step`, but for the last."""
    n_queries = limits.shape[3]
    last = torch.arange(n_queries + -n_queries % tile, device=limits.device).clamp(max=n_queries - 1)
    starts, stops = limits[:, :, :, last].reshape(*limits.shape[:3], -1, tile, 2).unbind(-1)
    begin, end = starts.amin(-1) // step * step, stops.amax(-1)
    whole_from, whole_to = -(-starts.amax(-1) // step) * step, stops.amin(-1) // step * step
    return borders(begin, whole_from, whole_to, end)


def along_queries(limits: Limits, n_keys: int, tile: int) -> Borders:
    """Return the borders of each tile of keys, as queries; they are exact if limits never fall, else too wide."""
    first = torch.arange(0, n_keys, tile, device=limits.device, dtype=torch.int32)
    last = (first + tile).clamp(max=n_keys) - 1
    starts, stops = limits.unbind(-1)

    def queries_before(ascending: Tensor, key: Tensor) -> Tensor:
        """Return how many queries come before the first query whose key range starts, or stops, after a key."""
        keys = key.expand(*ascending.shape[:3], -1).contiguous()
        return torch.searchsorted(ascending.contiguous(), keys, right=True, out_int32=True)

    begin, end = queries_before(running_maximum(stops), first), queries_before(remaining_minimum(starts), last)
    whole_from = queries_before(remaining_minimum(stops), last)
    whole_to = queries_before(running_maximum(starts), first)
    return borders(begin, whole_from, whole_to, end)


def running_maximum(limits: OneSide) -> OneSide:
    """Return the largest limit of the queries up to each query."""
    return limits.cummax(dim=-1).values


def remaining_minimum(limits: OneSide) -> OneSide:
    """Return the least limit of the queries from each query on."""
    return limits.flip(-1).cummin(dim=-1).values.flip(-1)


def borders(begin: Tensor, whole_from: Tensor, whole_to: Tensor, end: Tensor) -> Borders:
    """Return four borders in ascending order; the two in the middle are equal if no part is free of the mask."""
    end = torch.maximum(begin, end)
    whole_from = torch.minimum(torch.maximum(whole_from, begin), end)
    whole_to = torch.minimum(torch.maximum(whole_to, whole_from), end)
    return torch.stack([begin, whole_from, whole_to, end], dim=-1).int()
