"""The keys that a kernel reads for a block of queries (a tile), and the keys for which it must apply the mask.

Each tile of queries has four borders, the key positions a ≤ b ≤ c ≤ d:

    before a, and from d on     no query may attend to these keys; the kernel does not read them
    a to b, and c to d          the mask is applied to each weight
    b to c                      every query may attend to every key, and no mask is applied

For the kernel `read_weights`, each tile of keys has four such borders, which are query positions. The borders are
computed on the GPU, in time that grows linearly with the number of tokens.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.grid.grid import Grid
from regard.attention.masks.ranges import Ranges

Limits = Int[Tensor, "ranges #batch #heads queries 2"]
"""For each query, the ranges of keys to which it may attend, each as a start and a stop."""

Borders = Int[Tensor, "ranges #batch #heads tiles 4"]
"""Token positions a, b, c, d for each block: the kernel reads tokens a to d, and applies no mask to tokens b to c."""


def limits_as_tensor(ranges: Ranges, grid: Grid) -> Limits:
    limits = torch.stack([ranges.starts, ranges.stops], dim=-1).int()
    return limits.expand(-1, -1, -1, grid.queries, -1)


def along_keys(limits: Limits, tile: int, step: int) -> Borders:
    """Return positions a, b, c, d for each block of queries: a kernel reads keys a to d, and masks none from b to c.

    Args:
        tile: the number of queries in a block.
        step: how many keys the kernel reads at a time; each of a, b and c is a multiple of `step`, or equal to d.
    """
    n_queries = limits.shape[3]
    n_tiles = -(-n_queries // tile)
    # the last query is repeated until the last tile is full
    query = torch.arange(n_tiles * tile, device=limits.device).clamp(max=n_queries - 1)
    starts, stops = limits[:, :, :, query].reshape(*limits.shape[:3], n_tiles, tile, 2).unbind(-1)
    begin, end = starts.amin(-1) // step * step, stops.amax(-1)
    whole_from, whole_to = -(-starts.amax(-1) // step) * step, stops.amin(-1) // step * step
    return borders(begin, whole_from, whole_to, end)


def along_queries(limits: Limits, n_keys: int, tile: int) -> Borders:
    """Return positions a, b, c, d for each block of keys: a kernel reads queries a to d, and masks none from b to c.

    If `limits` decrease from one query to the next, the kernel reads and masks more queries than needed.

    Args:
        n_keys: the number of all keys.
        tile: the number of keys in a block.
    """
    first = torch.arange(0, n_keys, tile, device=limits.device, dtype=torch.int32)
    # if the last block has fewer than `tile` keys, its `last` is past all keys, and the mask is applied to the block
    last = first + tile - 1
    starts, stops = limits.unbind(-1)

    def count_up_to(ascending: Tensor, keys: Tensor) -> Tensor:
        """Return, for each key, how many numbers in `ascending` are not larger than this key."""
        keys = keys.expand(*ascending.shape[:3], -1).contiguous()
        return torch.searchsorted(ascending.contiguous(), keys, right=True, out_int32=True)

    begin, end = count_up_to(stops.cummax(dim=-1).values, first), count_up_to(remaining_minimum(starts), last)
    whole_from = count_up_to(remaining_minimum(stops), last)
    whole_to = count_up_to(starts.cummax(dim=-1).values, first)
    return borders(begin, whole_from, whole_to, end)


def remaining_minimum(limits: Int[Tensor, "*axes queries"]) -> Int[Tensor, "*axes queries"]:
    """Return, for each query, the minimum of the limits of this query and of all queries after it."""
    return limits.flip(-1).cummin(dim=-1).values.flip(-1)


def borders(begin: Tensor, whole_from: Tensor, whole_to: Tensor, end: Tensor) -> Borders:
    """Stack the four positions on a last axis, changed where needed so that begin ≤ whole_from ≤ whole_to ≤ end."""
    end = torch.maximum(begin, end)
    whole_from = torch.minimum(torch.maximum(whole_from, begin), end)
    whole_to = torch.minimum(torch.maximum(whole_to, whole_from), end)
    return torch.stack([begin, whole_from, whole_to, end], dim=-1).int()
