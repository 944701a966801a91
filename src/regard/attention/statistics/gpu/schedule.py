"""Which tiles a kernel goes through, and which of them it need not mask.

Seen from a tile of queries, keys outside of one stretch are barred for all of them, and keys inside of a smaller one
are kept for all. That makes four borders, with what is masked, whole and masked again between them. Seen from a tile of
keys it is the same along the queries. The cost grows with the length, and nothing is read back from the GPU.
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
    """Start and stop of every query's ranges, side by side."""
    limits = torch.stack([ranges.starts, ranges.stops], dim=-1).int()
    return limits.expand(-1, -1, -1, grid.queries, -1)


def along_keys(limits: Limits, tile: int, step: int) -> Borders:
    """The borders of each tile of queries, in keys; steps from the first of them on never cross one between."""
    n_queries = limits.shape[3]
    last = torch.arange(n_queries + -n_queries % tile, device=limits.device).clamp(max=n_queries - 1)
    starts, stops = limits[:, :, :, last].reshape(*limits.shape[:3], -1, tile, 2).unbind(-1)
    begin, end = starts.amin(-1) // step * step, stops.amax(-1)
    whole_from, whole_to = -(-starts.amax(-1) // step) * step, stops.amin(-1) // step * step
    return borders(begin, whole_from, whole_to, end)


def along_queries(limits: Limits, n_keys: int, tile: int) -> Borders:
    """The borders of each tile of keys, in queries; exact where limits only ever grow, else on the safe side."""
    first = torch.arange(0, n_keys, tile, device=limits.device, dtype=torch.int32)
    last = (first + tile).clamp(max=n_keys) - 1
    starts, stops = limits.unbind(-1)

    def where(ascending: Tensor, key: Tensor) -> Tensor:
        """How many queries come before the first whose limit is above a key."""
        keys = key.expand(*ascending.shape[:3], -1).contiguous()
        return torch.searchsorted(ascending.contiguous(), keys, right=True, out_int32=True)

    begin, end = where(so_far(stops), first), where(from_here(starts), last)
    whole_from, whole_to = where(from_here(stops), last), where(so_far(starts), first)
    return borders(begin, whole_from, whole_to, end)


def so_far(limits: OneSide) -> OneSide:
    """The largest limit up to each query."""
    return limits.cummax(dim=-1).values


def from_here(limits: OneSide) -> OneSide:
    """The least limit from each query on."""
    return limits.flip(-1).cummin(dim=-1).values.flip(-1)


def borders(begin: Tensor, whole_from: Tensor, whole_to: Tensor, end: Tensor) -> Borders:
    """Four borders in ascending order; where nothing is whole, the two in the middle are one."""
    end = torch.maximum(begin, end)
    whole_from = torch.minimum(torch.maximum(whole_from, begin), end)
    whole_to = torch.minimum(torch.maximum(whole_to, whole_from), end)
    return torch.stack([begin, whole_from, whole_to, end], dim=-1).int()
