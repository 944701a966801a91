"""The grid and its tiles: positions along the axes, parts of broadcast tensors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.grid.grid import Grid, as_indices, contiguous_rows, entries_at, spans, varies_by_query

GRID = Grid(2, 3, 5, 7)
CPU = torch.device("cpu")


def test_a_grid_has_a_shape_and_an_offset():
    assert GRID.shape == torch.Size([2, 3, 5, 7])
    assert (GRID.offset, Grid(1, 1, 7, 5).offset) == (2, -2)
    assert str(GRID) == "batch=2, heads=3, queries=5, keys=7"
    assert GRID.whole().shape == GRID.shape


@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 7), (3, 1, 1), (2, 3, 5, 7), (1, 3, 1, 7)])
def test_a_grid_admits_what_broadcasts_to_it(shape):
    assert GRID.admits(torch.zeros(shape))


@pytest.mark.parametrize("shape", [(0,), (5,), (7, 5), (2, 1, 1), (3, 3, 5, 7), (1, 2, 3, 5, 7), (1, 1, 1, 1, 1)])
def test_a_grid_admits_nothing_that_would_make_it_larger(shape):
    assert not GRID.admits(torch.zeros(shape))


@pytest.mark.parametrize(("shape", "rows"), [((), False), ((7,), False), ((1, 7), False), ((5, 1), True)])
def test_a_tensor_has_a_row_for_each_query_or_one_for_all(shape, rows):
    assert varies_by_query(torch.zeros(shape)) is rows


def test_numbers_that_lie_apart_are_put_side_by_side(normal):
    together = normal(2, 3, 5, 7)
    apart = together.mT.contiguous().mT
    assert contiguous_rows(together) is together
    assert contiguous_rows(apart).stride() == together.stride() != apart.stride()
    assert torch.equal(contiguous_rows(apart), together)


AXES = [range(1, 2), torch.tensor([2, 0, 2]), range(0, 5, 3), range(4, 7)]
INDEX = torch.meshgrid(*(as_indices(axis, CPU) for axis in AXES), indexing="ij")


@pytest.mark.parametrize("shape", [(), (7,), (5, 1), (3, 1, 7), (2, 1, 1, 1), (2, 3, 5, 7)])
def test_a_tile_selects_its_part_of_a_tensor(normal, shape):
    tensor, tile = normal(*shape), GRID.whole().part(*AXES)
    part = tile.select(tensor)
    assert tile.shape == (1, 3, 2, 3)
    assert torch.equal(part.expand(tile.shape), tensor.expand(GRID.shape)[INDEX])
    assert part.numel() <= max(1, tensor.numel() * 3)  # it is not expanded


def test_a_tile_knows_the_positions_along_its_axes():
    tile = GRID.whole().part(*AXES)
    for axis, expected in enumerate([[1], [2, 0, 2], [0, 3], [4, 5, 6]]):
        along = tile.along(axis, CPU)
        assert along.flatten().tolist() == expected
        assert along.shape == tuple(len(expected) if other == axis else 1 for other in range(4))


def test_a_part_of_a_tile_keeps_its_other_axes():
    part = GRID.whole().part(queries=range(2, 3))
    assert part.axes == (range(2), range(3), range(2, 3), range(7))
    assert part.part(keys=range(4)).axes == (range(2), range(3), range(2, 3), range(4))


@given(st.integers(-3, 11), st.integers(-3, 11), st.integers(1, 4))
def test_positions_are_those_of_the_range(start, stop, step):
    assert as_indices(range(start, stop, step), CPU).tolist() == list(range(start, stop, step))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_ranges_are_views_and_numbers_are_copies(normal, axis):
    tensor = normal(5, 7, 11)
    view = entries_at(tensor, axis, range(1, 5, 3))
    copy = entries_at(tensor, axis, torch.tensor([1, 4]))
    assert torch.equal(view, copy)
    assert torch.equal(copy, tensor.index_select(axis, torch.tensor([1, 4])))
    assert view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
    assert copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


@given(st.integers(0, 40), st.integers(1, 11))
def test_spans_cover_everything_once_in_order(length, size):
    covered = list(spans(length, size))
    assert [position for span in covered for position in span] == list(range(length))
    assert all(len(span) == size for span in covered[:-1])
