"""The attention function: contexts against a loop in float64, by hand, NaN, gradients, dropout."""

import math
from itertools import cycle

import pytest
import torch
from oracle import BATCH, D_KEY, D_VALUE, DTYPES, HALF, HEADS, KEY_HEADS, MASKS, correct, eager, masks, matrix, stages
from torch.testing import assert_close

import regard.attention.backends.fused as fused_backend
import regard.attention.weights as weights_module
from regard import Causal, Documents, Keep, Padding, ScaledDot, Softmax, Window, attend
from regard.attention.backends.reference import reference

SINKS = torch.linspace(-2, 3, HEADS)


@pytest.fixture
def inputs(normal):
    def draw(queries, keys, dtype=torch.float32, batch=BATCH):
        query = normal(batch, HEADS, queries, D_KEY, dtype=dtype)
        key, value = (normal(batch, KEY_HEADS, keys, width, dtype=dtype) for width in (D_KEY, D_VALUE))
        return query, key, value

    return draw


# Against the reference


@pytest.mark.parametrize(
    ("queries", "keys", "name", "dtype"),
    [(*case, torch.float32) for case in MASKS] + [(*case, dtype) for case, dtype in zip(MASKS, cycle(HALF))],
)
def test_context_and_weights_are_right_under_every_mask(inputs, monkeypatch, queries, keys, name, dtype):
    monkeypatch.setattr(fused_backend, "BLOCK_QUERIES", 2)  # several blocks even of so few queries
    query, key, value = inputs(queries, keys, dtype)
    mask, sees = masks(queries, keys)[name]
    keep = matrix(sees, BATCH, HEADS, queries, keys)
    truth, control = reference(query, key, value, keep=keep), eager(query, key, value, keep=keep)
    seen = attend(query, key, value, mask=mask)
    tiled = seen.pattern.apply(value)
    assert seen.backend == "fused"
    assert seen.context.dtype == tiled.dtype == dtype
    correct(seen.context, truth[0], control[0])
    correct(tiled, truth[0], control[0])
    correct(seen.pattern.dense(), truth[1], control[1])


OPTIONS = {
    "scale": {"scale": 0.9},
    "negative scale": {"scale": -0.9},
    "no scale": {"scale": 0.0},
    "softcap": {"softcap": 0.7},
    "bias": {"bias": (BATCH, HEADS, 5, 17)},
    "bias for all": {"bias": (5, 17)},
    "bias by head and key": {"bias": (HEADS, 1, 17)},
    "bias by query": {"bias": (5, 1)},
    "temperature": {"temperature": 0.4},
    "sinks": {"sinks": SINKS},
    "all of them": {"scale": 0.9, "softcap": 2.3, "bias": (HEADS, 5, 17), "temperature": 1.9, "sinks": SINKS},
    "bias and temperature": {"bias": (BATCH, 1, 5, 17), "temperature": 1.9},
}
"""By name: options of `reference`; of a bias, the shape."""

SOME_MASKS = "none", "causal from the start", "causal behind", "padding", "keep"


@pytest.mark.parametrize(
    ("options", "name", "dtype"),
    [(options, name, torch.float32) for options, name in zip(OPTIONS, cycle(SOME_MASKS))]
    + [(options, "of all kinds", dtype) for options in OPTIONS for dtype in DTYPES],
)
def test_every_option_of_score_and_normaliser_is_right_under_masks(inputs, normal, options, name, dtype):
    options, (query, key, value), (mask, sees) = dict(OPTIONS[options]), inputs(5, 17, dtype), masks(5, 17)[name]
    if "bias" in options:
        options["bias"] = normal(*options["bias"], dtype=dtype)
    seen = attend(query, key, value, mask=mask, **stages(**options))
    if "bias" in options:
        options["bias"] = options["bias"].expand(BATCH, HEADS, 5, 17)
    options["keep"] = matrix(sees, BATCH, HEADS, 5, 17)
    truth, control = reference(query, key, value, **options), eager(query, key, value, **options)
    correct(seen.context, truth[0], control[0])
    correct(seen.pattern.dense(), truth[1], control[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_temperature_0_shares_the_weight_among_the_largest(normal, dtype):
    query, value = torch.ones(2, 3, 5, 1, dtype=dtype), normal(2, 3, 7, 13, dtype=dtype)
    key = torch.tensor([1.0, 3.0, -2.0, 3.0, 0.0, 3.0, 2.0], dtype=dtype)[:, None].expand(2, 3, 7, 1)
    seen = attend(query, key, value, mask=Causal(), normalise=Softmax(temperature=0.0))
    keep = matrix(lambda b, h, i, j: j <= i + 2, 2, 3, 5, 7)
    context, weights = reference(query, key, value, keep=keep, temperature=0.0)
    assert weights[0, 0, 4].tolist() == [0, 1 / 3, 0, 1 / 3, 0, 1 / 3, 0]
    correct(seen.pattern.dense(), weights, weights)
    correct(seen.context, context, context)


@pytest.mark.parametrize("dtype", HALF)
def test_the_pattern_has_the_bias_that_the_kernel_used(normal, dtype):
    query, key = torch.zeros(2, 3, 5, 17, dtype=dtype), torch.zeros(2, 3, 17, 17, dtype=dtype)
    value, bias = torch.eye(17, dtype=dtype).expand(2, 3, 17, 17), 30 + 9 * normal(3, 5, 17)
    seen = attend(query, key, value, score=ScaledDot(bias=bias))  # context = the kernel's weights
    assert_close(seen.context, seen.pattern.dense().to(dtype))
    assert_close(seen.pattern.scores(), bias.to(dtype).float().expand(2, 3, 5, 17))


def test_weights_of_half_types_are_computed_in_float32(inputs):
    for dtype in HALF:
        query, key, value = inputs(5, 7, dtype)
        truth = reference(query, key, value)[1]
        weights = attend(query, key, value).pattern.dense()
        assert weights.dtype == torch.float32
        assert_close(weights, truth.float())


def test_self_attention_by_hand():
    x = torch.tensor([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], dtype=torch.float64)
    to_query = torch.tensor([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]], dtype=torch.float64)
    to_key = torch.tensor([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]], dtype=torch.float64)
    to_value = torch.tensor([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]], dtype=torch.float64)
    seen = attend(*((x @ parameters)[None, None] for parameters in (to_query, to_key, to_value)))
    steps = seen.pattern.steps(0, 0)
    assert steps.products.tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    assert [[f"{weight:.4e}" for weight in row] for row in seen.pattern[0, 0].tolist()] == [
        ["1.3613e-01", "4.3194e-01", "4.3194e-01"],
        ["8.9045e-04", "9.0884e-01", "9.0267e-02"],
        ["7.4449e-03", "7.5471e-01", "2.3785e-01"],
    ]
    assert [[f"{number:.4f}" for number in row] for row in seen.context[0, 0].tolist()] == [
        ["1.8639", "6.3194", "1.7042"],
        ["1.9991", "7.8141", "0.2735"],
        ["1.9926", "7.4796", "0.7359"],
    ]
    assert_close(steps.context, seen.context[0, 0])


# Queries that see no key, and NaN


FIRST_TWO = torch.arange(5) < 2


@pytest.mark.parametrize("softcap", [None, 1.7])
@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.4])
@pytest.mark.parametrize("sinks", [None, SINKS])
@pytest.mark.parametrize(
    ("mask", "bias", "blind"),
    [
        (Causal(-2), None, FIRST_TWO),
        (Keep(FIRST_TWO[:, None]), None, ~FIRST_TWO),
        (None, torch.zeros(5, 1).masked_fill(FIRST_TWO[:, None], -math.inf), FIRST_TWO),
    ],
    ids=["causal", "keep", "bias"],
)
def test_a_query_that_sees_no_key_reads_nothing(inputs, mask, bias, blind, sinks, temperature, softcap):
    options = {"softcap": softcap, "bias": bias, "temperature": temperature, "sinks": sinks}
    seen = attend(*inputs(5, 17), mask=mask, **stages(**options))
    top = seen.pattern.top(3)
    for part in (seen.context, seen.pattern.dense(), seen.pattern.entropy(), top.weights):
        assert bool((part[:, :, blind] == 0).all())
        assert not bool(part.isnan().any())
    assert bool((top.keys[:, :, blind] == -1).all())
    assert bool((top.keys[:, :, ~blind, 0] >= 0).all())
    assert sinks is not None or bool((seen.context[:, :, ~blind] != 0).all())


@pytest.mark.parametrize("softcap", [None, 1.7])
@pytest.mark.parametrize("mask", [None, Causal()])
@pytest.mark.parametrize("keys", [7, 17])
def test_nan_in_a_query_shows_in_its_row_and_in_no_others(inputs, keys, mask, softcap):
    query, key, value = inputs(5, keys)
    whole = attend(query, key, value, mask=mask, score=ScaledDot(softcap=softcap))
    query = query.clone()
    query[1, 4, 2, 7] = math.nan
    seen = attend(query, key, value, mask=mask, score=ScaledDot(softcap=softcap))
    assert bool(seen.context[1, 4, 2].isnan().all())
    visible = slice(None) if mask is None else slice(0, keys - 2)  # the third of five queries
    assert bool(seen.pattern[1, 4, 2, visible].isnan().all())
    assert bool(seen.pattern.entropy()[1, 4, 2].isnan())
    assert bool(seen.pattern.top(3).weights[1, 4, 2].isnan().all())
    assert bool(seen.pattern.pooled(5, keys, "max")[1, 4, 2, visible].isnan().all())
    assert bool(seen.pattern.received()[1, 4, visible].isnan().all())
    other = torch.ones(2, 6, 5, dtype=torch.bool)
    other[1, 4, 2] = False
    assert_close(seen.context[other], whole.context[other])
    assert_close(seen.pattern.dense()[other], whole.pattern.dense()[other])


@pytest.mark.parametrize("softcap", [None, 1.7])
@pytest.mark.parametrize("keys", [7, 17])
def test_nan_in_a_key_or_value_shows_wherever_it_is_read(inputs, keys, softcap):
    query, key, value = inputs(5, keys)
    whole = attend(query, key, value, score=ScaledDot(softcap=softcap))
    key, value = key.clone(), value.clone()
    key[1, 2, 3, 5] = math.nan  # key head 2 serves heads 4 and 5
    value[0, 0, 6, 12] = math.nan  # value head 0 serves heads 0 and 1
    seen = attend(query, key, value, score=ScaledDot(softcap=softcap))
    assert bool(seen.context[1, 4:].isnan().all())
    assert bool(seen.pattern[1, 4:].isnan().all())
    assert bool(seen.context[0, :2, :, 12].isnan().all())
    assert_close(seen.context[0, :2, :, :12], whole.context[0, :2, :, :12])
    assert_close(seen.pattern[0], whole.pattern[0])
    assert_close(seen.context[0, 2:], whole.context[0, 2:])
    assert_close(seen.context[1, :4], whole.context[1, :4])


# Gradients


MASKS_FOR_GRADIENTS = {
    "none": None,
    "causal": Causal(),
    "causal from the start": Causal(0),
    "blind": Causal(-1),
    "window and padding": Window(2, 0) & Padding(torch.tensor([17, 13])),
    "documents": Documents(torch.tensor([0] * 7 + [1] * 10)),
    "keep": Keep(torch.tensor([True, False] * 8 + [True])),
}


@pytest.mark.parametrize("options", ["", "bias", "softcap", "sinks", "temperature", "bias softcap sinks temperature"])
@pytest.mark.parametrize("mask", MASKS_FOR_GRADIENTS)
def test_gradients_of_the_context_are_right(normal, monkeypatch, mask, options):
    monkeypatch.setattr(fused_backend, "BLOCK_QUERIES", 2)
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 2 * 2 * 17 * 2)
    shapes = (2, 2, 3, 2), (2, 1, 17, 2), (2, 1, 17, 3), (2, 3, 17), (2,)
    tensors = [normal(*shape, dtype=torch.float64).requires_grad_() for shape in shapes]

    def context(query, key, value, bias, sinks):
        every = {"bias": bias, "softcap": 1.3, "sinks": sinks, "temperature": 0.7}
        chosen = {name: every[name] for name in options.split()}
        return attend(query, key, value, mask=MASKS_FOR_GRADIENTS[mask], **stages(**chosen)).context

    assert torch.autograd.gradcheck(context, tensors, fast_mode=True)


def test_each_number_of_a_gradient_is_right(normal):
    tensors = [normal(*s, dtype=torch.float64).requires_grad_() for s in [(1, 2, 3, 2), (1, 1, 5, 2), (1, 1, 5, 3)]]
    for score in (ScaledDot(), ScaledDot(softcap=1.3)):
        assert torch.autograd.gradcheck(lambda *qkv, s=score: attend(*qkv, mask=Causal(), score=s).context, tensors)
        assert torch.autograd.gradcheck(lambda *qkv, s=score: attend(*qkv, score=s).pattern[0, 1, 1:], tensors)


@pytest.mark.parametrize("mask", MASKS_FOR_GRADIENTS)
def test_gradients_of_the_weights_are_right(normal, mask):
    query, key, bias, sinks = (
        normal(*shape, dtype=torch.float64).requires_grad_()
        for shape in [(2, 2, 3, 2), (2, 1, 17, 2), (2, 3, 17), (2,)]
    )

    def part(query, key, bias, sinks):
        pattern = attend(
            query, key, key, mask=MASKS_FOR_GRADIENTS[mask], score=ScaledDot(bias=bias), normalise=Softmax(sinks=sinks)
        ).pattern
        return pattern[:, 1, 1:, [0, 3, 16]], pattern[-1, ..., 2], pattern.scores(0, 1)

    assert torch.autograd.gradcheck(part, (query, key, bias, sinks), fast_mode=True)


# Dropout


@pytest.mark.parametrize("score", [ScaledDot(), ScaledDot(softcap=2.3)], ids=repr)
@pytest.mark.parametrize("mask", [None, Causal()])
def test_dropout_drops_weights_and_scales_up_the_rest(normal, mask, score):
    torch.manual_seed(0)
    query, key, value = normal(2, 3, 29, 11), normal(2, 3, 31, 11), torch.eye(31).expand(2, 3, 31, 31)
    seen = attend(query, key, value, mask=mask, score=score, dropout=0.25)
    weights = seen.pattern.dense()  # the pattern is the one before dropout
    assert_close(weights, attend(query, key, value, mask=mask, score=score).pattern.dense())
    dropped = (seen.context == 0) & (weights > 0)
    assert_close(seen.context, (weights / 0.75).masked_fill(dropped, 0.0))
    # of n draws with chance p, the share strays from p by more than 5 · sqrt(p (1 - p) / n) once in 1.7 million times
    n = int((weights > 0).sum())
    assert abs(int(dropped.sum()) / n - 0.25) < 5 * math.sqrt(0.25 * 0.75 / n)


def test_dropout_in_blocks_has_the_gradient_of_the_weights_it_kept(normal):
    torch.manual_seed(0)
    value = torch.eye(7).expand(2, 3, 7, 7).clone().requires_grad_()
    context = attend(normal(2, 3, 5, 11), normal(2, 3, 7, 11), value, score=ScaledDot(softcap=2.3), dropout=0.5).context
    context.sum().backward()
    assert_close(value.grad, context.detach().sum(dim=2)[..., None].expand(2, 3, 7, 7))
