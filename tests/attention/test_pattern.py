"""Tests of `Pattern`: parts equal the same parts of the whole, statistics equal float64, nothing more is computed."""

import copy
import math
import pickle
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import BATCH, D_KEY, D_VALUE, HALF, HEADS, KEY_HEADS, correct, eager, masks, matrix, near
from torch.testing import assert_close

import regard.attention.weights as weights_module
from regard import Alibi, Ask, Causal, Keep, Padding, Pattern, ScaledDot, Softmax, Window, attend
from regard.attention.backends.reference import reference
from regard.attention.call import Call
from regard.attention.grid.grid import Grid
from regard.attention.statistics.cpu import engine
from regard.attention.statistics.torch import engine as torch_engine

QUERIES, KEYS = 11, 19
SINKS = torch.linspace(-2, 3, HEADS, dtype=torch.float64)
SEEN = ["none", "causal", "causal behind", "window", "padding alone", "keep", "keep nothing", "of all kinds"]


def inputs(dtype):
    """Return query, key and value from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    shapes = (BATCH, HEADS, QUERIES, D_KEY), (BATCH, KEY_HEADS, KEYS, D_KEY), (BATCH, KEY_HEADS, KEYS, D_VALUE)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


@cache
def truth_and_control(name, dtype, temperature, sinks):
    """Return the weights of the inputs under a mask of oracle.py: by the float64 reference, and by plain torch."""
    formula = {"keep": matrix(masks(QUERIES, KEYS)[name][1], BATCH, HEADS, QUERIES, KEYS), "temperature": temperature}
    formula |= {"sinks": SINKS if sinks else None}
    return reference(*inputs(dtype), **formula)[1], eager(*inputs(dtype), **formula)[1]


def seen(name, dtype=torch.float64, temperature=1.0, sinks=False):
    """Return a pattern under a mask of oracle.py, and its weights by the float64 reference and by plain torch."""
    normalise = Softmax(temperature=temperature, sinks=SINKS if sinks else None)
    pattern = attend(*inputs(dtype), mask=masks(QUERIES, KEYS)[name][0], normalise=normalise).pattern
    return pattern, *truth_and_control(name, dtype, temperature, sinks)


@pytest.fixture
def small_blocks(monkeypatch):
    """Make blocks of three queries, so that the last block of 11 queries is not full."""
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 3 * BATCH * HEADS * KEYS)


# Parts

INDICES = [
    0,
    -1,
    (1, 4),
    (1, -2, 10),
    (0, 3, 7, 18),
    (-2, -6, -11, -19),
    ...,
    (..., 2),
    (1, ..., 2),
    (..., 5, 3),
    (0, 1, 2, 3, ...),
    slice(None),
    (slice(1, None), slice(None, None, 2), slice(-5, -1), slice(3, 17, 5)),
    (0, slice(2, 2)),
    (slice(None), slice(5, 1)),
    (0, 0, slice(9, 3)),
    (0, 0, 0, slice(9, 3)),
    (1, 2, slice(0, 100), slice(-100, 4)),
    [1],
    [1, 0, 1, -1],
    (0, [5, 0, 5]),
    (slice(None), 2, [10, -11, 3]),
    (..., [18, 0, 3]),
    (1, 3, 2, [4, 4, -1]),
    (1, [2, 3], 2, slice(None, 3)),
    (0, 0, []),
    (0, 0, torch.tensor([2, 9])),
    (0, torch.tensor([], dtype=torch.int64), 3),
    (),
]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["none", "causal", "of all kinds"])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_a_part_is_that_part_of_the_whole(index, name):
    pattern, truth, _ = seen(name)
    assert pattern.shape == truth.shape
    near(pattern[index], truth[index])
    entries = index if isinstance(index, tuple) else (index,)
    near(pattern.scores(*entries), pattern.scores()[index])


@st.composite
def indices(draw):
    entries, listed = [], False
    for size in (BATCH, HEADS, QUERIES, KEYS)[: draw(st.integers(0, 4))]:
        kinds = ["int", "slice"] + ["list"] * (not listed)
        kind = draw(st.sampled_from(kinds))
        positions = st.integers(-size, size - 1)
        if kind == "int":
            entries.append(draw(positions))
        elif kind == "slice":
            bound = st.none() | st.integers(-size - 2, size + 2)
            entries.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 4))))
        else:
            entries.append(draw(st.lists(positions, max_size=5)))
            listed = True
    return tuple(entries)


@given(indices())
def test_any_part_is_that_part_of_the_whole(index):
    generator = torch.Generator().manual_seed(1)
    query, key = (
        torch.randn(BATCH, heads, n, D_KEY, generator=generator, dtype=torch.float64)
        for heads, n in ((HEADS, QUERIES), (KEY_HEADS, KEYS))
    )
    bias = torch.randn(HEADS, 1, KEYS, generator=generator, dtype=torch.float64)
    for mask in (None, Causal(), masks(QUERIES, KEYS)["documents by item"][0]):
        pattern = attend(query, key, key, mask=mask, score=ScaledDot(bias=bias)).pattern
        near(pattern[index], pattern.dense()[index])


# Statistics


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
def test_every_statistic_is_the_one_of_the_reference(name):
    for options in ({}, {"temperature": 0.4}, {"sinks": True}):
        pattern, truth, _ = seen(name, **options)
        for found, expected in STATISTICS.values():
            near(found(pattern), expected(truth))


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_statistics_are_as_right_as_rounding_allows(statistic, dtype):
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


@pytest.mark.parametrize("ask", [None, Ask(top=3)])
def test_top_takes_whole_numbers(normal, unhooked, ask):
    pattern = attend(*normal(3, 1, 2, 5, 7).unbind(), ask=ask).pattern
    assert torch.equal(pattern.top(2).keys, pattern.top(np.int64(2)).keys)
    for n in (1.5, "2"):
        with pytest.raises(TypeError) as raised:
            pattern.top(n)
        assert str(raised.value) == f"top={n!r} is no number of keys; it takes a whole number, such as top=8."


def test_a_map_that_was_asked_for_is_there(normal, unhooked, monkeypatch):
    pattern = attend(*normal(3, 1, 2, 5, 7).unbind(), ask=Ask(pooled=[2, 3])).pattern
    assert pattern.known.ask.pooled == (2, 3)
    monkeypatch.setattr(Pattern, "answer", lambda self, ask: pytest.fail("computed again"))
    assert torch.equal(pattern.pooled(2, 3), pattern.known.pooled)


def test_a_key_that_a_bias_of_minus_infinity_bars_is_no_top_key(normal):
    bias = torch.tensor([0.0, -math.inf, 0.0])
    top = attend(normal(1, 1, 2, 5), normal(1, 1, 3, 5), normal(1, 1, 3, 5), score=ScaledDot(bias=bias)).pattern.top(3)
    assert top.keys[0, 0].sort().values.tolist() == [[-1, 0, 2]] * 2


def test_what_may_be_seen_is_what_neither_mask_nor_bias_bars(normal):
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
def test_what_the_weights_do_to_other_vectors(normal, name):
    pattern, truth, _ = seen(name)
    for heads in (1, KEY_HEADS, HEADS):
        values = normal(BATCH, heads, KEYS, 5, dtype=torch.float64)
        near(pattern.apply(values), truth @ values.repeat_interleave(HEADS // heads, 1))
    near(
        pattern.apply(values[:1]),
        truth @ values[:1],
    )
    for shape in [(BATCH, HEADS, QUERIES), (1, HEADS, QUERIES), (1, 1, QUERIES)]:
        vector = normal(*shape, dtype=torch.float64)
        near(pattern.back(vector), (vector.expand(BATCH, HEADS, QUERIES)[:, :, None] @ truth)[:, :, 0])


@pytest.mark.parametrize("dtype", HALF)
def test_half_vectors_are_read_in_their_own_type(normal, dtype):
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
    passes, blocks, read = [], torch_engine.blocks_of, engine.read
    monkeypatch.setattr(torch_engine, "blocks_of", lambda call, report: passes.append(1) or blocks(call, report))
    monkeypatch.setattr(engine, "read", lambda *given, **options: passes.append(1) or read(*given, **options))
    summary = pattern.summary(received=True, entropy=True, top=3, pooled=(2, 7))
    assert len(passes) == 1
    assert torch.equal(summary.received, expected[0])
    assert torch.equal(summary.entropy, expected[1])
    assert torch.equal(summary.top.weights, expected[2].weights)
    assert torch.equal(summary.top.keys, expected[2].keys)
    assert torch.equal(summary.pooled, pattern.pooled(2, 7))
    assert pattern.summary(received=False).received is None


# Laws


@given(st.integers(0, 999), st.sampled_from(list(masks(QUERIES, KEYS))))
def test_attention_is_conserved(seed, name):
    generator = torch.Generator().manual_seed(seed)
    query, key = (
        3 * torch.randn(BATCH, heads, n, D_KEY, generator=generator, dtype=torch.float64)
        for heads, n in ((HEADS, QUERIES), (KEY_HEADS, KEYS))
    )
    mask, sees = masks(QUERIES, KEYS)[name]
    visible = matrix(sees, BATCH, HEADS, QUERIES, KEYS).sum(dim=-1)
    pattern, live = attend(query, key, key, mask=mask).pattern, (visible > 0).double()
    near(pattern.dense().sum(dim=-1), live)
    near(pattern.received().sum(dim=-1), live.sum(dim=-1))
    near(pattern.back(torch.ones(1, 1, QUERIES)), pattern.received())
    near(pattern.apply(torch.ones(1, 1, KEYS, 1, dtype=torch.float64))[..., 0], live)
    near(pattern.pooled(3, 5, "sum").sum(dim=(2, 3)), live.sum(dim=-1))
    near(pattern.top(KEYS).weights.sum(dim=-1), live)
    entropy = pattern.entropy()
    assert bool((entropy >= 0).all())
    assert bool((entropy <= visible.clamp_min(1).log() + 1e-12).all())  # rounding of a sum of 19 logarithms
    sunk = attend(query, key, key, mask=mask, normalise=Softmax(sinks=torch.zeros(HEADS))).pattern.dense().sum(dim=-1)
    assert bool((sunk <= live + 1e-12).all())
    assert bool((sunk[live == 0] == 0).all())


def everything(pattern):
    """Return the results of all methods of a pattern, as tensors."""
    top = pattern.top(7)
    return [
        pattern.dense(), pattern[1, 2:, ::3, 4:], pattern.received(), pattern.entropy(), top.weights, top.keys,
        pattern.pooled(3, 5), pattern.pooled(3, 5, "max"), pattern.apply(pattern.value),
        pattern.back(torch.ones(1, 1, QUERIES)),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["none", "causal", "documents by item", "of all kinds"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("rows", [0, 2, 5])
def test_the_size_of_a_block_does_not_matter(monkeypatch, name, dtype, rows):
    pattern, *_ = seen(name, dtype)
    whole = everything(pattern)
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", rows * BATCH * HEADS * KEYS)
    for found, expected in zip(everything(pattern), whole, strict=True):
        assert_close(found, expected)


def test_the_number_of_threads_does_not_matter(normal):
    query, key, value = normal(2, 6, 257, 67), normal(2, 3, 263, 67), normal(2, 3, 263, 67)
    pattern, threads, received = attend(query, key, value, mask=Causal()).pattern, torch.get_num_threads(), {}
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            received[count] = pattern.received()
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(received[1], received[2])


# The stages


@pytest.mark.parametrize("name", ["none", "causal behind", "of all kinds"])
@pytest.mark.parametrize("query", [4, -1, slice(2, 9, 3), slice(None), slice(9, 3)])
def test_steps_are_the_formula_one_stage_after_the_other(normal, name, query):
    queries = normal(BATCH, HEADS, QUERIES, D_KEY, dtype=torch.float64)
    key, value = (normal(BATCH, KEY_HEADS, KEYS, width, dtype=torch.float64) for width in (D_KEY, D_VALUE))
    bias = normal(QUERIES, KEYS, dtype=torch.float64)
    mask, sees = masks(QUERIES, KEYS)[name]
    keep = matrix(sees, BATCH, HEADS, QUERIES, KEYS)
    score, normalise = ScaledDot(softcap=2.3, bias=bias), Softmax(temperature=1.9)
    attended = attend(queries, key, value, mask=mask, score=score, normalise=normalise)
    steps = attended.pattern.steps(1, 4, query)
    rows, keys, values = queries[1, 4, query], key[1, 2], value[1, 2]
    products = rows @ keys.mT
    scores = 2.3 * torch.tanh(products / math.sqrt(D_KEY) / 2.3) + bias[query]
    near(steps.query, rows)
    near(steps.key, keys)
    near(steps.value, values)
    near(steps.products, products)
    near(steps.scores, scores)
    near(steps.masked, scores.masked_fill(~keep[1, 4, query], -math.inf))
    near(steps.weights, attended.pattern[1, 4, query])
    near(steps.weighted_values, steps.weights[..., None] * values)
    near(steps.context, attended.context[1, 4, query])
    near(steps.context, steps.weighted_values.sum(dim=-2))


# What it is


def test_it_introduces_itself(normal):
    query, key = normal(2, 6, 5, 11), normal(1, 3, 7, 11)
    pattern = attend(query, key, key).pattern
    assert repr(pattern) == "Pattern(batch=2, heads=6, queries=5, keys=7)"
    assert pattern.shape == torch.Size([2, 6, 5, 7])
    assert (pattern.n_heads, pattern.ndim, len(pattern)) == (6, 4, 2)
    assert (pattern.dtype, pattern.device) == (torch.float32, torch.device("cpu"))
    score, normalise = ScaledDot(bias=torch.zeros(7)), Softmax(temperature=2.0)
    assert repr(attend(query, key, key, mask=Window(1, 0), score=score, normalise=normalise).pattern) == (
        "Pattern(batch=2, heads=6, queries=5, keys=7, mask=Window(before=1, after=0), "
        "score=ScaledDot(bias=<float32 [7]>), normalise=Softmax(temperature=2.0))"
    )
    assert attend(query.double(), key.double(), key.double()).pattern.dtype == torch.float64
    assert attend(query.half(), key.half(), key.half()).pattern.dtype == torch.float32


def test_it_is_a_tensor_to_whom_it_takes_for_one():
    pattern, *_ = seen("causal")
    weights = pattern.dense()
    assert np.array_equal(np.asarray(pattern), weights.numpy())
    assert np.asarray(pattern, dtype=np.float32).dtype == np.float32
    assert np.array_equal(np.array(pattern), weights.numpy())
    assert torch.equal(torch.stack([pattern, pattern]), torch.stack([weights, weights]))
    assert torch.equal(torch.cat((pattern, weights)), torch.cat((weights, weights)))
    assert torch.equal(torch.mean(input=pattern, dim=1), weights.mean(dim=1))
    assert torch.equal(pattern.mean(), weights.mean())
    assert torch.equal(pattern[:1].squeeze(0), weights[0])
    assert torch.equal(pattern.squeeze(0), weights.squeeze(0))
    assert torch.equal(weights * pattern, weights * weights)
    assert_close(torch.einsum("bhqk,bhqk->bhq", [pattern, weights]), weights.square().sum(dim=-1))
    assert torch.equal(pattern, weights)
    assert torch.equal(weights, pattern)
    assert pattern.requires_grad is False


def test_it_is_a_numpy_array_with_gradients_too(normal):
    query = normal(1, 2, 5, 3).requires_grad_()
    pattern = attend(query, query, query).pattern
    assert pattern[0].requires_grad
    assert np.array_equal(np.asarray(pattern), pattern.dense().detach().numpy())


def test_what_no_tensor_has_it_has_not():
    pattern, *_ = seen("none")
    for name in ("weight", "_private"):
        with pytest.raises(AttributeError) as raised:
            getattr(pattern, name)
        assert str(raised.value) == f"Pattern has no attribute {name!r}"


def test_all_of_a_large_pattern_is_refused():
    long = torch.zeros(1, 1, 1, 5).expand(1, 2, 65_537, 5)  # no memory: one row stands for all
    pattern = attend(long[:, :, :1], long, long, mask=Causal()).pattern
    assert pattern.dense().shape == (1, 2, 1, 65_537)
    pattern = Pattern(Call(long, long, long, Grid(1, 2, 65_537, 65_537), ScaledDot(), Causal(), Softmax(), None))
    for build in (pattern.dense, lambda: np.asarray(pattern), lambda: torch.stack([pattern]), lambda: pattern.mean()):
        with pytest.raises(ValueError) as raised:
            build()
        assert str(raised.value) == (
            "all weights of Pattern(batch=1, heads=2, queries=65537, keys=65537, mask=Causal()) take 34,360,786,952 "
            "bytes (32.0 GiB), more than max_bytes=4,294,967,296; ask for a part (pattern[batch, head, query]), "
            ".top(8), .received() or .pooled(512, 512), or allow it with dense(max_bytes=34360786952)."
        )
    near(pattern[0, 1, 3, :5].double(), torch.tensor([1 / 4] * 4 + [0], dtype=torch.float64))


def test_the_limit_of_dense_can_be_set():
    pattern, truth, _ = seen("none", torch.float32)
    size = 4 * truth.numel()
    assert pattern.dense(max_bytes=size).shape == truth.shape
    with pytest.raises(ValueError) as raised:
        pattern.dense(max_bytes=size - 1)
    assert str(raised.value) == (
        "all weights of Pattern(batch=2, heads=6, queries=11, keys=19) take 10,032 "
        "bytes (0.0 GiB), more than max_bytes=10,031; ask for a part (pattern[batch, head, query]), .top(8), "
        ".received() or .pooled(512, 512), "
        f"or allow it with dense(max_bytes={size})."
    )


# What it was computed from


@pytest.mark.parametrize("changed", ["query", "key", "value"])
def test_a_pattern_of_changed_tensors_is_refused(normal, changed):
    tensors = {"query": normal(1, 2, 5, 3), "key": normal(1, 2, 7, 3), "value": normal(1, 2, 7, 3)}
    pattern = attend(**tensors).pattern
    whole = pattern.dense()
    assert torch.equal(pattern.dense(), whole)
    tensors[changed].mul_(2)
    looks = [
        lambda: pattern[0], pattern.dense, pattern.scores, pattern.received, pattern.entropy, lambda: pattern.top(1),
        lambda: pattern.pooled(1, 1), lambda: pattern.steps(0, 0), lambda: pattern.summary(entropy=True),
        lambda: pattern.apply(tensors["value"]), lambda: pattern.back(torch.ones(1, 1, 5)), lambda: np.asarray(pattern),
    ]  # fmt: skip
    for look in looks:
        with pytest.raises(ValueError) as raised:
            look()
        assert str(raised.value) == (
            "a tensor given to attend() was changed in place afterwards, so the weights of that call can no longer be "
            "computed; clone the tensor before you change it."
        )


@pytest.mark.parametrize("changed", ["bias", "sinks", "mask", "joined"])
def test_a_pattern_of_changed_parts_is_refused(normal, changed):
    tensors = {"bias": normal(2, 5, 7), "sinks": normal(2), "mask": normal(5, 7) > 0, "joined": torch.tensor([3])}
    seen = attend(
        *(normal(1, 2, n, 3) for n in (5, 7, 7)),
        score=ScaledDot(bias=tensors["bias"]),
        mask=Keep(tensors["mask"]) & (~Causal() | Padding(tensors["joined"])),
        normalise=Softmax(sinks=tensors["sinks"]),
    )
    assert seen.pattern[0, 0, 0].shape == (7,)
    tensors[changed].copy_(tensors[changed])
    with pytest.raises(ValueError) as raised:
        seen.pattern[0, 0, 0]
    assert str(raised.value).startswith("a tensor given to attend() was changed in place afterwards")


def test_operators_work_through_dense(normal):
    pattern, *_ = seen("none", torch.float32)
    dense = pattern.dense()
    assert torch.equal(pattern * 2, dense * 2)
    assert torch.equal(1 - pattern, 1 - dense)
    assert torch.equal(pattern > 0.25, dense > 0.25)
    assert torch.equal(pattern @ dense.mT, dense @ dense.mT)
    assert torch.equal(pattern + pattern, 2 * dense)
    assert torch.equal(-pattern, -dense)


@pytest.mark.parametrize("score", [ScaledDot(), ScaledDot(softcap=2.3), ScaledDot(bias=Alibi())], ids=repr)
def test_tensors_of_inference_mode_have_patterns(normal, score):
    expected = attend(*(tensors := (normal(2, 6, 5, 11), normal(2, 3, 7, 11), normal(2, 3, 7, 13))), score=score)
    with torch.inference_mode():
        inside = attend(*(tensor.clone() for tensor in tensors), score=score)
        assert_close(inside.pattern.dense(), expected.pattern.dense())
    for seen in (inside, attend(*(inside.pattern.query, inside.pattern.key, inside.pattern.value), score=score)):
        assert_close(seen.context, expected.context)
        assert_close(seen.pattern.dense(), expected.pattern.dense())
        assert_close(seen.pattern.received(), expected.pattern.received())
        assert_close(seen.pattern.apply(tensors[2]), expected.context)


def test_statistics_carry_no_gradients_but_parts_do(normal):
    query = normal(1, 2, 5, 3).requires_grad_()
    pattern = attend(query, query, query).pattern
    assert not pattern.received().requires_grad
    assert not pattern.summary(entropy=True).entropy.requires_grad
    assert pattern[0, 0].requires_grad
    assert pattern.apply(query).requires_grad
    assert pattern.back(torch.ones(1, 1, 5)).requires_grad


@pytest.mark.parametrize(
    "look",
    [
        lambda pattern: pattern[..., [3, 17]],
        lambda pattern: pattern.back(torch.ones(1, 1, 211)),
        lambda pattern: pattern.apply(torch.ones(1, 1, 211, 1)),
    ],
    ids=["part", "back", "apply"],
)
def test_no_weights_wait_for_a_backward_pass(normal, monkeypatch, look):
    query, key = (normal(1, 2, 211, 5).requires_grad_() for _ in range(2))
    pattern = attend(query, key, key, mask=Causal()).pattern
    (at_once,) = torch.autograd.grad(look(pattern).square().sum(), query)
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 2 * 211 * 17)
    waiting = {}

    def wait(tensor):
        waiting[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(wait, lambda tensor: tensor):
        seen = look(pattern)
    assert sum(waiting.values()) < 4 * 2 * 211 * 17  # a block; all weights are more than twelve
    (in_blocks,) = torch.autograd.grad(seen.square().sum(), query)
    assert_close(in_blocks, at_once)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda pattern: pickle.loads(pickle.dumps(pattern))])
def test_a_copy_shows_the_same(normal, copied):
    query, key, bias = normal(1, 2, 5, 3), normal(1, 2, 7, 3), normal(2, 5, 7)
    bias.mul_(2)  # so that its changes are counted from 1
    pattern = attend(query, key, key, score=ScaledDot(bias=bias), mask=Causal(), ask=Ask(top=2)).pattern
    again = copied(pattern)
    assert repr(again) == repr(pattern)
    assert torch.equal(again.dense(), pattern.dense())
    assert torch.equal(again.top(2).keys, pattern.top(2).keys)


@pytest.mark.parametrize(
    ("shape", "batch", "heads"),
    [
        ((2, 4, 9, 3), 2, "[1, 2, 4]"),
        ((2, 4, 6, 3), 2, "[1, 2, 4]"),
        ((3, 4, 7, 3), 2, "[1, 2, 4]"),
        ((2, 8, 7, 3), 2, "[1, 2, 4]"),
        ((2, 3, 7, 3), 2, "[1, 2, 4]"),
        ((2, 0, 7, 3), 2, "[1, 2, 4]"),
    ],
)
def test_values_that_do_not_fit_are_refused(normal, shape, batch, heads):
    pattern = attend(normal(2, 4, 5, 3), normal(2, 2, 7, 3), normal(2, 2, 7, 3)).pattern
    with pytest.raises(ValueError) as raised:
        pattern.apply(torch.zeros(shape))
    assert str(raised.value) == (
        f"value of shape {list(shape)} with a pattern of batch=2, heads=4, queries=5, keys=7; it needs a value for "
        f"each key, a batch of 1 or {batch} and a number of heads among {heads}."
    )


@pytest.mark.parametrize("shape", [(2, 4, 6), (2, 4, 4), (2, 4, 1), (3, 4, 5), (2, 2, 5)])
def test_vectors_that_do_not_fit_are_refused(normal, shape):
    pattern = attend(normal(2, 4, 5, 3), normal(2, 2, 7, 3), normal(2, 2, 7, 3)).pattern
    with pytest.raises(ValueError) as raised:
        pattern.back(torch.zeros(shape))
    assert str(raised.value) == (
        f"vector of shape {list(shape)} with a pattern of batch=2, heads=4, queries=5, keys=7; it needs a number for "
        "each query, [batch heads queries], where batch and heads may be 1."
    )


def test_what_would_change_weights_in_place_is_refused(normal):
    pattern = attend(*normal(3, 1, 2, 5, 3)).pattern
    with pytest.raises(AttributeError) as raised:
        pattern.zero_()
    assert str(raised.value) == ("Pattern has no 'zero_', as it holds no weights to change; change what dense() gives.")
