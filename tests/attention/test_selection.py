"""Tests of the indices of a pattern: which are refused, with which message (test_pattern.py tests the results)."""

import numpy as np
import pytest
import torch
from refusals import refusal

from regard.attention.grid.grid import Grid
from regard.attention.grid.selection import Selection

GRID = Grid(2, 3, 5, 7)


def test_an_index_names_a_tile_and_the_axes_that_fall_away():
    selection = Selection.of((1, ..., slice(1, None, 2), [6, 0]), GRID)
    assert selection.tile.batch == range(1, 2)
    assert selection.tile.heads == range(3)
    assert selection.tile.queries == range(1, 5, 2)
    assert selection.tile.keys.tolist() == [6, 0]
    assert selection.dropped == (0,)
    assert selection.squeezed(torch.zeros(1, 3, 2, 2)).shape == (3, 2, 2)
    assert Selection.of((..., -1, -7), GRID).tile.axes == (range(2), range(3), range(4, 5), range(0, 1))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (2, "batch 2 is out of bounds: there are 2, counted from 0 to 1."),
        ((0, -4), "head -4 is out of bounds: there are 3, counted from 0 to 2."),
        ((0, 0, 5), "query 5 is out of bounds: there are 5, counted from 0 to 4."),
        ((..., [0, 7]), "key 7 is out of bounds: there are 7, counted from 0 to 6."),
        ((0, 0, 0, 0, 0), "a pattern has four axes (batch, head, query, key); got 5 indices."),
        ((..., 0, ...), "a pattern has four axes (batch, head, query, key); got 3 indices."),
    ],
    ids=str,
)
def test_an_index_out_of_bounds_or_of_too_many_axes_is_refused(index, message):
    assert refusal(IndexError, Selection.of, index, GRID) == message


BOOLEANS = "a pattern is not indexed by booleans; the {} index is {}. Give positions, e.g. flags.nonzero().flatten()."
NO_INDEX = "{} is not a {} index; a pattern takes ints, slices and lists of positions."


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (
            ([0], [1]),
            "a pattern takes one list of positions in an index, not several (batch, head); use slices for the other "
            "axes, or index pattern.dense().",
        ),
        (True, BOOLEANS.format("batch", True)),
        ((0, [True, False, True]), BOOLEANS.format("head", [True, False, True])),
        (torch.tensor([True, False]), BOOLEANS.format("batch", "<bool [2]>")),
        (
            (0, 0, slice(None, None, -1)),
            "a pattern takes slices with a positive step; got slice(None, None, -1) for the query.",
        ),
        ("it", NO_INDEX.format("'it'", "batch")),
        ((0, None), NO_INDEX.format(None, "head")),
        ((0, 0, 1.0), NO_INDEX.format(1.0, "query")),
        ((0, 0, [1.5]), NO_INDEX.format([1.5], "query")),
        ((0, 0, 0, [[1], [2]]), NO_INDEX.format([[1], [2]], "key")),
        (torch.tensor(2.0), NO_INDEX.format("tensor(2.)", "batch")),
        (np.float64(2.0), NO_INDEX.format("np.float64(2.0)", "batch")),
    ],
    ids=str,
)
def test_an_index_of_another_type_is_refused(index, message):
    assert refusal(TypeError, Selection.of, index, GRID) == message


@pytest.mark.parametrize("positions", [np.array([4, 2]), torch.tensor([4, -3]), [-1, 2], range(4, 0, -2)], ids=str)
def test_arrays_tensors_lists_and_ranges_are_positions(positions):
    assert Selection.of((0, 0, positions), GRID).tile.queries.tolist() == [4, 2]


def test_numbers_of_numpy_and_tensors_without_axes_are_ints():
    for entry in (torch.tensor(2), np.int64(2), np.array(2)):
        selection = Selection.of((0, 1, entry), GRID)
        assert selection.tile.shape == (1, 1, 1, 7)
        assert selection.dropped == (0, 1, 2)
