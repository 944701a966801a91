"""Masks as ranges of keys, in the form that kernels take."""

import torch

from regard.attention.grid.grid import Grid
from regard.attention.masks.mask import Mask
from regard.attention.masks.ranges import Ranges

MAX_RANGES = 16
"""The most ranges of keys per query that the kernels support; a GPU kernel runs a loop for each range."""


def key_ranges(grid: Grid, mask: Mask | None, device: torch.device) -> Ranges | None:
    """Return a mask as ranges of keys; None if it has another form, or more than `MAX_RANGES` ranges for a query."""
    if mask is None or not grid.queries:
        return Ranges.of(0, grid.keys, grid, device)
    # all queries have the same number of ranges, so one query is enough to compare this number with MAX_RANGES
    one_query = mask.ranges(Grid(grid.batch, grid.heads, 1, grid.keys), device)
    if one_query is None or len(one_query.starts) > MAX_RANGES:
        return None
    ranges = mask.ranges(grid, device)
    assert ranges is not None
    # axis 0 has the ranges; some may be empty for every query
    return ranges if len(ranges.starts) == 1 else ranges.without_empty()
