"""Sums over the columns: the same in any order, and the rows of the map that queries fall into."""

import math
import random
from fractions import Fraction

import pytest
import torch

from regard import Ask
from regard.attention.grid import Grid
from regard.attention.statistics.blocks import Block
from regard.attention.statistics.totals import Columns, Sum, Totals


def test_a_sum_is_the_same_in_any_order_and_exact():
    numbers = [2.0 ** random.Random(n).uniform(-80, 20) for n in range(300)]
    parts = [torch.tensor([number, 1 - number]) for number in numbers]  # in float32, as blocks give them
    exact = [float(sum(Fraction(part[i].item()) for part in parts)) for i in range(2)]
    for seed in range(5):
        random.Random(seed).shuffle(parts)
        total = Sum.zeros(2)
        for part in parts:
            total.add(part)
        assert total.value().tolist() == exact


def test_sums_of_sums_are_as_exact():
    one, other = Sum.zeros(1), Sum.zeros(1)
    for number in (1.0, 1e20):
        one.add(torch.tensor([number], dtype=torch.float64))
    for number in (1e-3, -1e20):
        other.add(torch.tensor([number], dtype=torch.float64))
    for part in (other.rounded, other.lost):
        one.add(part)
    assert one.value().item() == 1.001


def test_nan_stays_nan():
    total = Sum.zeros(2)
    for number in (math.nan, 1.0):
        total.add(torch.tensor([number, 1.0]))
    assert total.value().isnan().tolist() == [True, False]
    total.rise(torch.tensor([5.0, math.nan]))
    assert total.value().isnan().all()


@pytest.mark.parametrize(("queries", "rows"), [(37, 11), (11, 11), (300, 1), (5, 3)])
def test_rows_of_the_map_are_those_that_the_queries_fall_into(queries, rows):
    totals = Totals.of(Grid(1, 1, queries, 9), Ask(pooled=(rows, 2)), None)
    assert totals.cell_of_row.bincount().tolist() == [
        sum(query * rows // queries == row for query in range(queries)) for row in range(rows)
    ]
    for start in range(queries):
        for stop in range(start + 1, queries + 1):
            of_each = totals.cell_of_row[start:stop].unique().tolist()
            assert list(totals.lines(range(start, stop))) == of_each


@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_what_blocks_give_goes_where_it_belongs(reduce):
    totals = Totals.of(Grid(1, 2, 4, 6), Ask(pooled=(2, 3), reduce=reduce), None)
    for keys, weight in ((range(1, 3), 0.5), (range(2, 6), 0.25)):
        received, cells = torch.full((len(keys),), weight), torch.full((1, 3), weight)
        totals.add(Block(0, 1, range(2, 4), keys), Columns(received, cells))
    summary = totals.summary()
    assert summary.received[0].tolist() == [[0] * 6, [0, 0.5, 0.75, 0.25, 0.25, 0.25]]
    assert summary.pooled[0, 0].tolist() == [[0] * 3] * 2
    assert summary.pooled[0, 1].tolist() == [[0] * 3, [0.75 if reduce == "sum" else 0.5] * 3]
