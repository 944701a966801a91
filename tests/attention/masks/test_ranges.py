"""Masks as ranges of keys: the same as their own rule, never overlapping, and none where they are not that."""

import pytest
import torch
from oracle import BATCH, HEADS, MASKS, masks

from regard import Causal, Dilated, Documents, Global, Grid, Keep, Window
from regard.attention.masks import as_mask

NO_RANGES = "dilated", "sparse transformer", "keep", "of all kinds"
CPU = torch.device("cpu")


@pytest.mark.parametrize(("queries", "keys", "name"), MASKS)
def test_ranges_keep_what_the_rule_keeps_and_never_overlap(queries, keys, name):
    grid, mask = Grid(BATCH, HEADS, queries, keys), as_mask(masks(queries, keys)[name][0])
    ranges = None if mask is None else mask.ranges(grid, CPU)
    if mask is None or name.startswith(NO_RANGES):
        assert ranges is None
        return
    assert torch.equal(ranges.keep().expand(grid.shape), mask.keep(grid.whole(), CPU).expand(grid.shape))
    key = torch.arange(keys)
    within = (key >= ranges.starts[..., None]) & (key < ranges.stops[..., None])
    assert int(within.sum(dim=0).max()) <= 1
    some = ranges.without_empty()
    assert torch.equal(some.keep(), ranges.keep())
    assert len(some.starts) == 1 or bool((some.starts < some.stops).flatten(1).any(dim=1).all())


def test_a_window_with_a_global_token_is_three_ranges_at_most():
    some = (Window(2, 2) | Global([0, 1])).ranges(Grid(1, 1, 50, 50), CPU).without_empty()
    assert len(some.starts) == 3
    assert len(Causal().ranges(Grid(1, 1, 50, 50), CPU).without_empty().starts) == 1


@pytest.mark.parametrize(
    ("ids", "some"),
    [([7, 7, 7, 2, 2, 9], True), ([1, 1, 1, 1, 1, 1], True), ([1, 1, 2, 2, 1, 1], False), ([0, 0, 0, 0, 1, 0], False)],
)
def test_documents_are_ranges_if_each_is_in_one_piece(ids, some):
    mask, grid = Documents(torch.tensor(ids)), Grid(1, 1, 4, 6)
    ranges = mask.ranges(grid, CPU)
    assert (ranges is not None) == some
    if ranges is not None:
        assert torch.equal(ranges.keep(), mask.keep(grid.whole(), CPU))


def test_joined_with_a_mask_that_is_no_ranges_there_are_none():
    grid, other = Grid(1, 1, 5, 7), Dilated(4, 0, 2)
    for mask in (Causal() & other, other | Causal(), ~other, Keep(torch.ones(7, dtype=torch.bool)) & Causal()):
        assert mask.ranges(grid, CPU) is None
