"""Tests of masks as ranges of keys: the number of ranges, and None for a mask that is not made of ranges."""

import pytest
import torch

from regard import Causal, Dilated, Documents, Global, Grid, Keep, Window

CPU = torch.device("cpu")


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
