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
    ("index", "kind", "message"),
    [
        (2, IndexError, "batch 2 is out of bounds: there are 2, counted from 0 to 1."),
        ((0, -4), IndexError, "head -4 is out of bounds: there are 3, counted from 0 to 2."),
        ((0, 0, 5), IndexError, "query 5 is out of bounds: there are 5, counted from 0 to 4."),
        ((..., [0, 7]), IndexError, "key 7 is out of bounds: there are 7, counted from 0 to 6."),
        (
            (0, 0, 0, 0, 0),
            IndexError,
            "a pattern has four axes (batch, head, query, key); got 5 indices.",
        ),
        (
            (..., 0, ...),
            IndexError,
            "a pattern has four axes (batch, head, query, key); got 3 indices.",
        ),
        (
            ([0], [1]),
            TypeError,
            "a pattern takes one list of positions in an index, not several (batch, head); "
            "use slices for the other axes, or index pattern.dense().",
        ),
        (
            True,
            TypeError,
            "a pattern is not indexed by booleans; the batch index is True. Give positions, "
            "e.g. flags.nonzero().flatten().",
        ),
        (
            (0, [True, False, True]),
            TypeError,
            "a pattern is not indexed by booleans; the head index is [True, False, True]. Give positions, "
            "e.g. flags.nonzero().flatten().",
        ),
        (
            torch.tensor([True, False]),
            TypeError,
            "a pattern is not indexed by booleans; the batch index is <bool [2]>. Give positions, "
            "e.g. flags.nonzero().flatten().",
        ),
        (
            (0, 0, slice(None, None, -1)),
            TypeError,
            "a pattern takes slices with a positive step; got slice(None, None, -1) for the query.",
        ),
        ("it", TypeError, "'it' is not a batch index; a pattern takes ints, slices and lists of positions."),
        ((0, None), TypeError, "None is not a head index; a pattern takes ints, slices and lists of positions."),
        ((0, 0, 1.0), TypeError, "1.0 is not a query index; a pattern takes ints, slices and lists of positions."),
        (
            (0, 0, [1.5]),
            TypeError,
            "[1.5] is not a query index; a pattern takes ints, slices and lists of positions.",
        ),
        (
            (0, 0, 0, [[1], [2]]),
            TypeError,
            "[[1], [2]] is not a key index; a pattern takes ints, slices and lists of positions.",
        ),
    ],
    ids=str,
)
def test_what_names_no_part_is_refused(index, kind, message):
    assert refusal(kind, lambda: Selection.of(index, GRID)) == message


@pytest.mark.parametrize("positions", [np.array([4, 2]), torch.tensor([4, -3]), [-1, 2], range(4, 0, -2)], ids=str)
def test_arrays_tensors_lists_and_ranges_are_positions(positions):
    assert Selection.of((0, 0, positions), GRID).tile.queries.tolist() == [4, 2]


def test_numbers_of_numpy_and_tensors_without_axes_are_ints():
    for entry in (torch.tensor(2), np.int64(2), np.array(2)):
        selection = Selection.of((0, 1, entry), Grid(2, 3, 5, 7))
        assert selection.tile.shape == (1, 1, 1, 7)
        assert selection.dropped == (0, 1, 2)
    for entry in (torch.tensor(2.0), np.float64(2.0)):
        with pytest.raises(TypeError) as raised:
            Selection.of(entry, Grid(2, 3, 5, 7))
        assert (
            str(raised.value) == f"{entry!r} is not a batch index; a pattern takes ints, slices and lists of positions."
        )
