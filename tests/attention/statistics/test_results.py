"""Tests of column sums: the same in any order of blocks; and of the row of a pooled map that a query belongs to."""

import math
import random
from fractions import Fraction

import pytest
import torch

from regard import Ask
from regard.attention.grid.grid import Grid
from regard.attention.statistics.cpu.results import CompensatedSum, Results


def test_a_sum_is_the_same_in_any_order_and_exact():
    numbers = [2.0 ** random.Random(n).uniform(-80, 20) for n in range(300)]
    parts = [torch.tensor([number, 1 - number]) for number in numbers]  # in float32, as blocks give them
    exact = [float(sum(Fraction(part[i].item()) for part in parts)) for i in range(2)]
    for seed in range(5):
        random.Random(seed).shuffle(parts)
        total = CompensatedSum.zeros(2)
        for part in parts:
            total.add(part)
        assert total.value().tolist() == exact


def test_sums_of_sums_are_as_exact():
    one, other = CompensatedSum.zeros(1), CompensatedSum.zeros(1)
    for number in (1.0, 1e20):
        one.add(torch.tensor([number], dtype=torch.float64))
    for number in (1e-3, -1e20):
        other.add(torch.tensor([number], dtype=torch.float64))
    for part in (other.rounded, other.error):
        one.add(part)
    assert one.value().item() == 1.001


def test_nan_stays_nan():
    total = CompensatedSum.zeros(2)
    for number in (math.nan, 1.0):
        total.add(torch.tensor([number, 1.0]))
    assert total.value().isnan().tolist() == [True, False]
    total.take_maximum(torch.tensor([5.0, math.nan]))
    assert total.value().isnan().all()


@pytest.mark.parametrize(("queries", "rows"), [(37, 11), (11, 11), (300, 1), (5, 3)])
def test_queries_and_keys_fall_evenly_into_the_map(queries, rows):
    totals = Results.of(Grid(1, 1, queries, queries), Ask(pooled=(rows, rows)), None)
    expected = [query * rows // queries for query in range(queries)]
    assert totals.cells.row_of_query.tolist() == expected
    assert totals.cells.first_key_of_column.tolist() == [*(expected.index(row) for row in range(rows)), queries]


def test_only_what_is_asked_is_kept():
    totals = Results.of(Grid(1, 2, 3, 5), Ask(received=False, distance=False, own=True, top=2), 7)
    assert sorted(totals.per_query) == ["entropy", "first", "own"]
    assert totals.received is None
    assert totals.pooled is None
    assert totals.context.shape == (1, 2, 3, 7)
    assert repr(totals.summary()) == "Summary(entropy, first, own, top)"
    assert totals.summary().top.keys.tolist() == [[[[-1, -1]] * 3] * 2]
