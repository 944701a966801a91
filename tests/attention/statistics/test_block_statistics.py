"""Tests of statistics computed block by block: by hand, with blocks of any size, within vmap, refusals."""

import math
from dataclasses import fields

import pytest
import torch
from oracle import near
from refusals import refusal
from torch.testing import assert_close

import regard.attention.weights as weights_module
from regard import Ask, Causal, Entmax, Softmax, attend
from regard.attention.grid.grid import Grid, spans
from regard.attention.statistics.torch.block_statistics import Pooled, gather_statistics
from regard.attention.weights import Block

GRID = Grid(1, 1, 3, 4)
WEIGHTS = torch.tensor([[[[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0.25, 0.25, 0.25, 0.25]]]], dtype=torch.float64)
LIKE = torch.empty((), dtype=torch.float64)


def blocks(size=2, keep=None):
    for queries in spans(3, size):
        part = slice(queries.start, queries.stop)
        yield Block(GRID.whole().part(queries=queries), WEIGHTS[:, :, part], None if keep is None else keep[:, :, part])


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    ("reduce", "pooled"),  # rows: queries 0 and 1, query 2; columns: keys 0 and 1, key 2, key 3
    [
        ("sum", [[2, 0, 0], [0.5, 0.25, 0.25]]),
        ("mean", [[0.5, 0, 0], [0.25, 0.25, 0.25]]),
        ("max", [[1, 0, 0], [0.25, 0.25, 0.25]]),
    ],
)
def test_by_hand(size, reduce, pooled):
    found = gather_statistics(blocks(size), GRID, LIKE, Ask(top=2, pooled=(2, 3), reduce=reduce))
    assert found.received[0, 0].tolist() == [0.75, 1.75, 0.25, 0.25]
    near(found.entropy[0, 0], torch.tensor([math.log(2), 0, math.log(4)], dtype=torch.float64))
    assert found.top.weights[0, 0].tolist() == [[0.5, 0.5], [1, 0], [0.25, 0.25]]
    assert found.top.keys[0, 0, 1, 0] == 1
    assert found.pooled[0, 0].tolist() == pooled


def test_the_largest_of_negative_weights_is_negative():
    largest = Pooled(GRID, LIKE, 2, 2, "max")
    largest.add(Block(GRID.whole(), -WEIGHTS - 0.5, None))
    assert largest.value()[0, 0].tolist() == [[-0.5, -0.5], [-0.75, -0.75]]


def test_masked_keys_are_no_top_keys():
    top = gather_statistics(blocks(keep=WEIGHTS > 0), GRID, LIKE, Ask(top=3)).top
    assert top.weights[0, 0].tolist() == [[0.5, 0.5, 0], [1, 0, 0], [0.25, 0.25, 0.25]]
    assert [sorted(keys) for keys in top.keys[0, 0, :2].tolist()] == [[-1, 0, 1], [-1, -1, 1]]


def test_an_allowed_key_of_weight_0_is_a_top_key():
    top = gather_statistics(blocks(), GRID, LIKE, Ask(top=4)).top
    assert [sorted(keys) for keys in top.keys[0, 0].tolist()] == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize("reduce", ["mean", "max", "sum"])
@pytest.mark.parametrize("normalise", [Softmax(), Entmax()], ids=repr)
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # torch's own
def test_statistics_under_vmap_equal_those_of_a_loop(normal, monkeypatch, normalise, reduce):
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 3 * 2 * 23)
    ask = Ask(own=True, previous=True, top=3, groups=torch.arange(23)[None] % 3 == 0, pooled=(3, 5), reduce=reduce)

    def look(query, key):
        known = attend(query, key, key, mask=Causal(), normalise=normalise, ask=ask).pattern.statistics
        parts = [getattr(known, field.name) for field in fields(known) if field.name not in ("ask", "top")]
        return known.top.weights, known.top.keys, *parts

    queries, keys = normal(5, 1, 2, 17, 8), normal(5, 1, 2, 23, 8)
    alone = [look(query, key) for query, key in zip(queries, keys, strict=True)]
    assert_close(torch.vmap(look)(queries, keys), tuple(map(torch.stack, zip(*alone, strict=True))))


@pytest.mark.parametrize("reduce", ["mean", "max", "sum"])
def test_nan_shows_in_every_statistic(reduce):
    block = Block(GRID.whole(), WEIGHTS.clone(), None)
    block.weights[0, 0, 1, 3] = math.nan
    found = gather_statistics([block], GRID, LIKE, Ask(top=1, pooled=(3, 4), reduce=reduce))
    assert found.received[0, 0].isnan().tolist() == [False, False, False, True]
    assert found.entropy[0, 0].isnan().tolist() == [False, True, False]
    assert found.top.weights[0, 0, :, 0].isnan().tolist() == [False, True, False]
    assert found.pooled[0, 0].isnan().nonzero().tolist() == [[1, 3]]


TOP = "top={} is {}, such as top=8."
CELLS = "a map of {} x {} cells does not fit over 3 queries x 4 keys; ask for at most 3 x 4."


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        *(({"top": n}, TOP.format(n, "out of range; ask for 1 to 2147483647 keys")) for n in (0, -1, 2**31)),
        *(({"pooled": size}, CELLS.format(*size)) for size in ((4, 4), (3, 5), (0, 1), (1, 0))),
        (
            {"groups": torch.zeros(2, 3, dtype=torch.bool)},
            "groups of dtype torch.bool and shape [2, 3] over 4 keys; "
            "give a boolean tensor of shape [groups 4], True = in the group.",
        ),
        ({"reduce": "median"}, "reduce='median' is unknown; it is one of mean, max, sum."),
    ],
)
def test_statistics_out_of_range_are_refused(without_type_checks, asked, message):
    assert refusal(ValueError, lambda: Ask(**asked).check(GRID)) == message


def test_numbers_and_sizes_of_another_type_are_refused(without_type_checks):
    for n in (1.5, True, "2"):
        message = TOP.format(repr(n), "not a number of keys; it takes a whole number")
        assert refusal(TypeError, lambda n=n: Ask(top=n).check(GRID)) == message
    for size in (5, (2,), (2, 2, 2), (1.5, 2), "22"):
        message = f"pooled={size!r} is not a size for a map; give rows and columns, such as pooled=(64, 64)."
        assert refusal(TypeError, lambda size=size: Ask(pooled=size).check(GRID)) == message


def test_weights_above_1_give_an_entropy_below_0():
    weights = torch.tensor([[[[2.0, 0.5, 0.0], [1.0 + 4e-16, 0.0, 0.0]]]], dtype=torch.float64)
    summary = gather_statistics([Block(Grid(1, 1, 2, 3).whole(), weights, None)], Grid(1, 1, 2, 3), LIKE, Ask())
    near(summary.entropy, torch.tensor([[[-1.5 * math.log(2), 0.0]]], dtype=torch.float64))
    assert float(summary.entropy[0, 0, 1]) == 0.0  # 1 + 4e-16 is 1 but for rounding
