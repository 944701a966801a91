"""Tests of `Pattern`: parts equal the same parts of the whole, and a pattern passes for a tensor of its weights."""

import copy
import math
import pickle

import einops
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import BATCH, D_KEY, D_VALUE, HEADS, KEY_HEADS, Saved, masks, matrix, near
from refusals import CHANGED_TENSOR, refusal
from seen_patterns import KEYS, QUERIES, seen, small_blocks  # noqa: F401 (a fixture)
from torch.testing import assert_close

import regard.attention.weights as weights_module
from regard import Alibi, Ask, Causal, MultiHeadAttention, Pattern, ScaledDot, Softmax, Window, attend
from regard.attention.call import Call
from regard.attention.grid.grid import Grid

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


# The stages


@pytest.mark.parametrize("name", ["none", "causal behind", "of all kinds"])
@pytest.mark.parametrize("query", [4, -1, slice(2, 9, 3), slice(None), slice(9, 3)])
def test_each_step_is_that_of_the_formula(normal, name, query):
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


# Repr, size, use as a tensor


def test_its_repr_has_sizes_and_stages_that_are_no_defaults(normal):
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


def test_results_show_the_shapes_of_their_tensors_and_not_the_numbers():
    x = torch.zeros(1, 2, 3, 4)
    assert repr(attend(x, x, x)) == (
        "Attended(context=<float32 [1, 2, 3, 4]>, pattern=Pattern(batch=1, heads=2, queries=3, keys=3), "
        "backend='fused')"
    )
    read = MultiHeadAttention(8, 2)(torch.zeros(1, 3, 8))
    assert repr(read) == (
        f"MultiHeadRead(output=<float32 [1, 3, 8]>, attended={read.attended!r}, "
        "cache=KeyValue(key=<float32 [1, 2, 3, 4]>, value=<float32 [1, 2, 3, 4]>))"
    )


@pytest.mark.usefixtures("without_type_checks")
def test_values_that_are_no_tensor_are_refused():
    pattern, *_ = seen("causal")
    assert refusal(TypeError, pattern.apply, [[1.0]]) == (
        "value is a list; apply takes a tensor, and torch.as_tensor makes one."
    )


def test_a_pattern_may_be_given_where_a_tensor_is_expected():
    pattern, *_ = seen("causal")
    weights = pattern.dense()
    assert np.array_equal(np.asarray(pattern), weights.numpy())
    assert np.asarray(pattern, dtype=np.float32).dtype == np.float32
    assert np.array_equal(np.array(pattern), weights.numpy())
    for make in (torch.as_tensor, torch.tensor, torch.from_dlpack):
        assert torch.equal(make(pattern), weights)
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


def test_a_pattern_moves_to_a_device_as_a_pattern_and_to_a_data_type_as_a_tensor(normal):
    query, key = normal(1, 2, 3, 5), normal(1, 2, 7, 5)
    score, sinks = ScaledDot(bias=Alibi()), Softmax(sinks=normal(2))
    seen = attend(query, key, key, score=score, mask=torch.ones(3, 7).tril(4).bool(), normalise=sinks, ask=Ask(top=2))
    pattern = seen.pattern
    here = pattern.to("cpu", non_blocking=False)
    assert isinstance(here, Pattern)
    assert torch.equal(here.dense(), pattern.dense())
    moved = pattern.to("meta")
    assert {tensor.device.type for tensor in moved.call.tensors} == {"meta"}
    assert moved.dense().device.type == moved.top(2).keys.device.type == "meta"
    assert torch.equal(pattern.to(torch.float64), pattern.dense().double())
    assert torch.equal(pattern.to("cpu", torch.float64), pattern.dense().double())


def test_a_pattern_with_gradients_becomes_a_numpy_array(normal):
    query = normal(1, 2, 5, 3).requires_grad_()
    pattern = attend(query, query, query).pattern
    assert pattern[0].requires_grad
    assert np.array_equal(np.asarray(pattern), pattern.dense().detach().numpy())


def test_an_attribute_that_tensors_lack_is_refused():
    pattern, *_ = seen("none")
    for name in ("no_name", "_private"):
        assert refusal(AttributeError, getattr, pattern, name) == f"Pattern has no attribute {name!r}"


def test_all_of_a_large_pattern_is_refused():
    long = torch.zeros(1, 1, 1, 5).expand(1, 2, 65_537, 5)  # no memory: one row stands for all
    pattern = attend(long[:, :, :1], long, long, mask=Causal()).pattern
    assert pattern.dense().shape == (1, 2, 1, 65_537)
    pattern = Pattern(Call(long, long, long, Grid(1, 2, 65_537, 65_537), ScaledDot(), Causal(), Softmax(), None))
    for build in (pattern.dense, lambda: np.asarray(pattern), lambda: torch.stack([pattern]), lambda: pattern.mean()):
        assert refusal(ValueError, build) == (
            "all weights of Pattern(batch=1, heads=2, queries=65537, keys=65537, mask=Causal()) take 34,360,786,952 "
            "bytes (32.0 GiB), more than max_bytes=4,294,967,296; ask for a part (pattern[batch, head, query]), "
            ".top(8), .received() or .pooled(512, 512), or allow it with dense(max_bytes=34360786952)."
        )
    near(pattern[0, 1, 3, :5].double(), torch.tensor([1 / 4] * 4 + [0], dtype=torch.float64))


def test_the_limit_of_dense_can_be_set():
    pattern, truth, _ = seen("none", torch.float32)
    size = 4 * truth.numel()
    assert pattern.dense(max_bytes=size).shape == truth.shape
    assert refusal(ValueError, lambda: pattern.dense(max_bytes=size - 1)) == (
        "all weights of Pattern(batch=2, heads=6, queries=11, keys=19) take 10,032 "
        "bytes (0.0 GiB), more than max_bytes=10,031; ask for a part (pattern[batch, head, query]), .top(8), "
        ".received() or .pooled(512, 512), "
        f"or allow it with dense(max_bytes={size})."
    )


# Changed tensors, operators, gradients, copies, refusals


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
        assert refusal(ValueError, look) == CHANGED_TENSOR


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
    for attended in (inside, attend(*(inside.pattern.query, inside.pattern.key, inside.pattern.value), score=score)):
        assert_close(attended.context, expected.context)
        assert_close(attended.pattern.dense(), expected.pattern.dense())
        assert_close(attended.pattern.received(), expected.pattern.received())
        assert_close(attended.pattern.apply(tensors[2]), expected.context)


@pytest.mark.parametrize(
    "look",
    [
        lambda pattern: pattern[..., [3, 17]],
        lambda pattern: pattern.back(torch.ones(1, 1, 211)),
        lambda pattern: pattern.apply(torch.ones(1, 1, 211, 1)),
    ],
    ids=["part", "back", "apply"],
)
def test_no_weights_are_stored_for_the_backward_pass(normal, monkeypatch, look):
    query, key = (normal(1, 2, 211, 5).requires_grad_() for _ in range(2))
    pattern = attend(query, key, key, mask=Causal()).pattern
    (at_once,) = torch.autograd.grad(look(pattern).square().sum(), query)
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 2 * 211 * 17)
    with Saved() as saved:
        seen = look(pattern)
    assert saved.bytes < 4 * 2 * 211 * 17  # one block; all weights are more than twelve
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
    "shape",
    [(2, 4, 9, 3), (2, 4, 6, 3), (3, 4, 7, 3), (2, 8, 7, 3), (2, 3, 7, 3), (2, 0, 7, 3), (7, 3), (2, 4, 7, 3, 5)],
)
def test_values_that_do_not_fit_are_refused(normal, without_type_checks, shape):
    pattern = attend(normal(2, 4, 5, 3), normal(2, 2, 7, 3), normal(2, 2, 7, 3)).pattern
    assert refusal(ValueError, lambda: pattern.apply(torch.zeros(shape))) == (
        f"value of shape {list(shape)} with a pattern of batch=2, heads=4, queries=5, keys=7; it needs a value for "
        "each key, a batch of 1 or 2 and a number of heads among [1, 2, 4]."
    )


@pytest.mark.parametrize("shape", [(2, 4, 6), (2, 4, 4), (2, 4, 1), (3, 4, 5), (2, 2, 5)])
def test_vectors_that_do_not_fit_are_refused(normal, shape):
    pattern = attend(normal(2, 4, 5, 3), normal(2, 2, 7, 3), normal(2, 2, 7, 3)).pattern
    assert refusal(ValueError, lambda: pattern.back(torch.zeros(shape))) == (
        f"vector of shape {list(shape)} with a pattern of batch=2, heads=4, queries=5, keys=7; it needs a number for "
        "each query, [batch heads queries], where batch and heads may be 1."
    )


def test_methods_that_change_a_tensor_in_place_are_refused(normal):
    pattern = attend(*normal(3, 1, 2, 5, 3)).pattern
    assert refusal(AttributeError, lambda: pattern.zero_()) == (
        "Pattern has no 'zero_', as it holds no weights to change; change what dense() gives."
    )


def test_a_mistyped_method_has_a_near_name():
    pattern = attend(*(torch.randn(1, 1, 3, 5) for _ in range(3))).pattern
    assert refusal(AttributeError, lambda: pattern.receved()) == (
        "Pattern has no attribute 'receved'; nearest: received"
    )


EINOPS = {
    "rearrange": lambda pattern: einops.rearrange(pattern, "b h q k -> (b h) q k"),
    "reduce": lambda pattern: einops.reduce(pattern, "b h q k -> b q", "mean"),
    "repeat": lambda pattern: einops.repeat(pattern, "b h q k -> b h q k n", n=2),
    "einsum": lambda pattern: einops.einsum(pattern, pattern, "b h q k, b h q k -> b h q"),
    "a list": lambda pattern: einops.rearrange([pattern, pattern], "n b h q k -> b (n h) q k"),
    "pack": lambda pattern: einops.pack([pattern, pattern], "* q k")[0],
}


@pytest.mark.parametrize("name", EINOPS)
def test_einops_takes_a_pattern(name):
    pattern = attend(*(torch.randn(2, 3, 5, 7) for _ in range(3))).pattern
    assert_close(EINOPS[name](pattern), EINOPS[name](pattern.dense()), rtol=0, atol=0)


def test_whole_numbers_as_values_are_refused(without_type_checks):
    x = torch.ones(1, 2, 5, 3)
    assert refusal(TypeError, attend(x, x, x).pattern.apply, torch.ones(1, 2, 5, 3, dtype=torch.int64)) == (
        "value has dtype torch.int64; apply takes floats; convert whole numbers with .float()."
    )
