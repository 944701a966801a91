"""Statistics of patterns: they equal those of float64 weights, in blocks of any size and on any number of threads."""

import math

import numpy as np
import pytest
import torch
from oracle import BATCH, HALF, HEADS, KEY_HEADS, correct, masks, matrix, near
from refusals import refusal
from seen_patterns import KEYS, QUERIES, SEEN, seen, small_blocks  # noqa: F401 (a fixture)
from torch.testing import assert_close

from regard import Ask, Causal, Pattern, ScaledDot, attend
from regard.attention.grid.grid import Grid
from regard.attention.statistics import choose
from regard.attention.statistics.cpu import engine


def entropies(weights):
    return -torch.xlogy(weights, weights).sum(dim=-1)


def pooled(weights, rows, columns, reduce):
    """Return the pooled map of the weights, computed by a loop over its cells."""
    queries, keys = weights.shape[2:]
    row = torch.tensor([i * rows // queries for i in range(queries)])
    column = torch.tensor([j * columns // keys for j in range(keys)])
    cells = torch.empty(*weights.shape[:2], rows, columns, dtype=weights.dtype)
    for r in range(rows):
        for c in range(columns):
            cell = weights[:, :, row == r][..., column == c].flatten(2)
            cells[:, :, r, c] = {"mean": cell.mean, "sum": cell.sum, "max": cell.amax}[reduce](dim=2)
    return cells


STATISTICS = {
    "received": (lambda pattern: pattern.received(), lambda weights: weights.sum(dim=2)),
    "entropy": (lambda pattern: pattern.entropy(), entropies),
    "top": (lambda pattern: pattern.top(5).weights, lambda weights: weights.sort(descending=True).values[..., :5]),
    "mean": (lambda pattern: pattern.pooled(3, 5), lambda weights: pooled(weights, 3, 5, "mean")),
    "max": (lambda pattern: pattern.pooled(3, 5, "max"), lambda weights: pooled(weights, 3, 5, "max")),
    "sum": (lambda pattern: pattern.pooled(3, 5, "sum"), lambda weights: pooled(weights, 3, 5, "sum")),
    "map of all": (lambda pattern: pattern.pooled(QUERIES, KEYS), lambda weights: weights),
    "map of one": (lambda pattern: pattern.pooled(1, 1), lambda weights: weights.mean(dim=(2, 3), keepdim=True)),
}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", SEEN)
def test_every_statistic_is_that_of_the_weights_by_the_reference(name):
    for options in ({}, {"temperature": 0.4}, {"sinks": True}):
        pattern, truth, _ = seen(name, **options)
        for found, expected in STATISTICS.values():
            near(found(pattern), expected(truth))


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_statistics_of_every_type_are_as_right_as_those_of_plain_torch(statistic, dtype):
    found, expected = STATISTICS[statistic]
    pattern, truth, control = seen("of all kinds", dtype)
    assert found(pattern).dtype == torch.float32
    correct(found(pattern), expected(truth), expected(control))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", SEEN)
def test_top_keys_hold_the_top_weights_and_are_visible(name):
    pattern, truth, _ = seen(name)
    keep = matrix(masks(QUERIES, KEYS)[name][1], BATCH, HEADS, QUERIES, KEYS)
    top = pattern.top(KEYS)
    for place in np.ndindex(BATCH, HEADS, QUERIES):
        keys, weights = top.keys[place].tolist(), top.weights[place]
        visible = keep[place].nonzero()[:, 0].tolist()
        assert sorted(keys[: len(visible)]) == visible
        near(weights[: len(visible)], truth[place][keys[: len(visible)]])
        assert keys[len(visible) :] == [-1] * (KEYS - len(visible))
        assert weights[len(visible) :].tolist() == [0.0] * (KEYS - len(visible))
        assert weights.tolist() == sorted(weights.tolist(), reverse=True)


@pytest.mark.parametrize("keys", [0, 1, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["whole pattern", "summary", "ask", "known"])
def test_more_top_keys_than_there_are_have_key_minus_one_and_weight_zero(normal, name, dtype, keys):
    query, key = normal(1, 2, 3, 7, dtype=dtype), normal(1, 2, keys, 7, dtype=dtype)
    ask = {"ask": Ask(top=8), "known": Ask(top=max(1, keys))}.get(name)
    pattern = attend(query, key, key, mask=Causal(0), ask=ask).pattern
    top = pattern.summary(top=8).top if name == "summary" else pattern.top(8)
    for place in np.ndindex(1, 2, 3):
        weights = pattern[place]
        seen = min(place[2] + 1, keys)
        expected = sorted(range(seen), key=lambda at, weights=weights: -float(weights[at]))
        assert top.keys[place].tolist() == expected + [-1] * (8 - seen)
        assert_close(top.weights[place], torch.cat([weights[expected], weights.new_zeros(8 - seen)]))


@pytest.mark.parametrize("ask", [None, Ask(top=3)])
def test_top_takes_whole_numbers(normal, without_type_checks, ask):
    pattern = attend(*normal(3, 1, 2, 5, 7).unbind(), ask=ask).pattern
    assert torch.equal(pattern.top(2).keys, pattern.top(np.int64(2)).keys)
    for n in (1.5, "2"):
        assert refusal(TypeError, pattern.top, n) == (
            f"top={n!r} is not a number of keys; it takes a whole number, such as top=8."
        )


def test_a_map_that_was_asked_for_is_not_computed_again(normal, without_type_checks, monkeypatch):
    pattern = attend(*normal(3, 1, 2, 5, 7).unbind(), ask=Ask(pooled=[2, 3])).pattern
    assert pattern.statistics.ask.pooled == (2, 3)
    monkeypatch.setattr(Pattern, "answer", lambda self, ask: pytest.fail("computed again"))
    assert torch.equal(pattern.pooled(2, 3), pattern.statistics.pooled)


def test_a_key_with_a_bias_of_minus_infinity_is_no_top_key(normal):
    bias = torch.tensor([0.0, -math.inf, 0.0])
    top = attend(normal(1, 1, 2, 5), normal(1, 1, 3, 5), normal(1, 1, 3, 5), score=ScaledDot(bias=bias)).pattern.top(3)
    assert top.keys[0, 0].sort().values.tolist() == [[-1, 0, 2]] * 2


def test_keep_is_false_where_the_mask_or_a_bias_of_minus_infinity_bars_a_key(normal):
    query, key = normal(1, 1, 3, 5), normal(1, 1, 3, 5)
    barred = ScaledDot(bias=torch.tensor([-math.inf, 0.0, 0.0]))
    tile = Grid(1, 1, 3, 3).whole().part(queries=range(1, 3))
    expected = {
        (None, barred): [[0, 1, 1], [0, 1, 1]],
        (Causal(), ScaledDot()): [[1, 1, 0], [1, 1, 1]],
        (Causal(), barred): [[0, 1, 0], [0, 1, 1]],
    }
    for (mask, score), rows in expected.items():
        keep = attend(query, key, key, mask=mask, score=score).pattern.keep(tile)
        assert keep.expand(tile.shape)[0, 0].int().tolist() == rows
    assert attend(query, key, key).pattern.keep(tile) is None


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", SEEN)
def test_apply_and_back_multiply_vectors_by_the_weights(normal, name):
    pattern, truth, _ = seen(name)
    for heads in (1, KEY_HEADS, HEADS):
        values = normal(BATCH, heads, KEYS, 5, dtype=torch.float64)
        near(pattern.apply(values), truth @ values.repeat_interleave(HEADS // heads, 1))
    near(pattern.apply(values[:1]), truth @ values[:1])
    for shape in [(BATCH, HEADS, QUERIES), (1, HEADS, QUERIES), (1, 1, QUERIES)]:
        vector = normal(*shape, dtype=torch.float64)
        near(pattern.back(vector), (vector.expand(BATCH, HEADS, QUERIES)[:, :, None] @ truth)[:, :, 0])


@pytest.mark.parametrize("dtype", HALF)
def test_apply_returns_the_type_of_half_vectors_and_back_float32(normal, dtype):
    pattern, truth, control = seen("causal", dtype)
    values = normal(BATCH, HEADS, KEYS, 5, dtype=dtype)
    assert pattern.apply(values).dtype == dtype
    correct(pattern.apply(values), truth @ values.double(), control @ values)
    vector = normal(BATCH, HEADS, QUERIES, dtype=dtype)
    assert pattern.back(vector).dtype == torch.float32
    correct(
        pattern.back(vector), (vector.double()[:, :, None] @ truth)[:, :, 0], (vector[:, :, None] @ control)[:, :, 0]
    )


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", SEEN)
def test_a_summary_is_its_statistics_in_one_pass(name, monkeypatch):
    pattern, *_ = seen(name)
    nothing = pattern.summary(received=False, entropy=False, distance=False, first=False)
    assert repr(nothing) == "Summary()"
    assert repr(pattern.summary()) == "Summary(received, entropy, distance, first)"
    expected = pattern.received(), pattern.entropy(), pattern.top(3), pattern.pooled(2, 7, "max")
    passes, blocks, read = [], choose.blocks_of, engine.context_and_statistics
    monkeypatch.setattr(choose, "blocks_of", lambda call, report: passes.append(1) or blocks(call, report))
    monkeypatch.setattr(
        engine, "context_and_statistics", lambda *given, **options: passes.append(1) or read(*given, **options)
    )
    summary = pattern.summary(received=True, entropy=True, top=3, pooled=(2, 7))
    assert len(passes) == 1
    assert torch.equal(summary.received, expected[0])
    assert torch.equal(summary.entropy, expected[1])
    assert torch.equal(summary.top.weights, expected[2].weights)
    assert torch.equal(summary.top.keys, expected[2].keys)
    assert torch.equal(summary.pooled, pattern.pooled(2, 7))
    assert pattern.summary(received=False).received is None
