"""Tests of scores and sums that overflow float32: context and pattern equal those of a loop in float64.

This holds for every backend, mask and normaliser, even if all scores of a query are below the smallest float32:
PyTorch's kernels then return context 0, as if all keys were masked out.
"""

import math

import pytest
import torch
from kinds import MASKS, NORMALISERS, built
from torch.testing import assert_close

from regard import Ask, Causal, Keep, Padding, ScaledDot, Softmax, attend, use_backend
from regard.attention.backends.reference import reference

LEAST = torch.finfo(torch.float32).min
ASK = Ask(entropy=True, received=True, top=2)

SIZES = {
    "all below the least float32": (1e20, -1e20),
    "all above the largest": (1e20, 1e20),
    "some of them": (2e19, None),
    "products alone, not the scores": (1.5e19, -1.6e19),
}
"""The magnitudes of queries and keys; None = keys of both signs, of size 1e20."""


def numbers(normal, query_size, key_size, keys=19, width=5):
    """Return queries of one sign, keys of one sign or both, and values."""
    query, key, value = normal(2, 2, 3, width), normal(2, 1, keys, width), normal(2, 1, keys, 7)
    query = query_size * (query.abs() + 0.5)
    return query, 1e20 * key if key_size is None else key_size * (key.abs() + 0.5), value


def check_agreement(seen, context, weights):
    """Fail unless context, pattern and statistics equal those of the loop in float64."""
    close = {"rtol": 1e-5, "atol": 1e-5, "check_dtype": False}
    assert_close(seen.context, context, **close)
    assert_close(seen.pattern.dense(), weights, **close)
    known = seen.pattern.statistics
    summary = seen.pattern.answer(ASK) if known is None or known.entropy is None else known
    assert_close(summary.entropy, -torch.xlogy(weights, weights).sum(dim=-1), **close)
    assert_close(summary.received, weights.sum(dim=2), **close)
    assert_close(summary.top.weights, weights.topk(2).values, **close)


@pytest.mark.parametrize(
    ("backend", "name", "size"),
    [
        *(("fused", name, size) for name in MASKS for size in ("all below the least float32", "some of them")),
        *((name, "Both", size) for name in ("fused", "math", "tiled", "reference") for size in SIZES),
    ],
)
def test_context_and_pattern_equal_the_loop_for_every_backend_and_mask(normal, backend, name, size):
    query, key, value = numbers(normal, *SIZES[size])
    case = built({"mask": name}, (3, 19), (2, 1))
    context, weights = reference(query, key, value, keep=case.keep.expand(2, 2, 3, 19))
    for ask in (None, ASK):
        with use_backend(backend):
            seen = attend(query, key, value, mask=case.mask, ask=ask)
        check_agreement(seen, context, weights)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NORMALISERS)
def test_context_and_pattern_equal_float64_for_every_normaliser(normal, name, size):
    query, key, value = numbers(normal, *SIZES[size])
    case = built({"normalise": name, "mask": "Causal"}, (3, 19), (2, 1))
    seen, exact = (
        attend(query.to(t), key.to(t), value.to(t), mask=Causal(), normalise=case.normalise)
        for t in (torch.float32, torch.float64)
    )
    assert_close(seen.context.double(), exact.context, rtol=1e-5, atol=1e-5)
    assert_close(seen.pattern.dense().double(), exact.pattern.dense(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["fused", "math", "tiled"])
@pytest.mark.parametrize(
    ("score", "temperature"),
    [
        (ScaledDot(bias=torch.full((3, 19), LEAST)), 1.0),  # by float masks of transformers
        (ScaledDot(bias=torch.full((3, 19), LEAST)), 0.5),
        (ScaledDot(scale=-1.0), 1.0),
        (ScaledDot(scale=1e-38), 1.0),
        (ScaledDot(), 1e38),
        (ScaledDot(), 1e-37),
    ],
    ids=["least bias", "least bias, cool", "negative scale", "tiny scale", "large temperature", "tiny temperature"],
)
def test_context_and_pattern_equal_the_loop_for_every_scale_bias_and_temperature(normal, backend, score, temperature):
    for sizes in ((1e17, -1e17), (1e17, 1e17), (2e19, None), (1e20, -1e20)):
        query, key, value = numbers(normal, *sizes)
        bias = None if score.bias is None else score.bias.expand(2, 2, 3, 19)
        context, weights = reference(query, key, value, scale=score.factor(5), bias=bias, temperature=temperature)
        with use_backend(backend):
            seen = attend(query, key, value, score=score, normalise=Softmax(temperature=temperature))
        check_agreement(seen, context, weights)


@pytest.mark.parametrize("backend", ["fused", "math", "tiled"])
@pytest.mark.parametrize("size", [3e37, 3.4e38])
def test_sums_of_values_that_overflow_float32_equal_the_loop(normal, backend, size):
    query, key, value = numbers(normal, 1.0, 1.0)
    value = value.clamp(-1, 1) * size
    context, weights = reference(query, key, value)
    with use_backend(backend):
        seen = attend(query, key, value)
    assert_close(seen.context.double() / size, context / size, rtol=1e-5, atol=1e-5)
    assert_close(seen.pattern.dense().double(), weights, rtol=1e-5, atol=1e-5)


def test_scores_of_bfloat16_that_overflow_float32_equal_the_loop(normal):
    query, key, value = (part.bfloat16() for part in numbers(normal, 1e20, -1e20))
    context, weights = reference(query, key, value)
    seen = attend(query, key, value)
    assert seen.context.dtype == torch.bfloat16
    assert_close(seen.context.double(), context, rtol=1e-2, atol=1e-2)
    assert_close(seen.pattern.dense().double(), weights, rtol=1e-5, atol=1e-5)


def test_scores_that_overflow_float64_are_nan_in_context_and_pattern(normal):
    query, key, value = (part.double() for part in numbers(normal, 1.0, -1.0))
    for backend in ("fused", "math", "tiled"):
        with use_backend(backend):
            seen = attend(1e200 * query, 1e200 * key, value)
        assert seen.context.isnan().all()
        assert seen.pattern.dense().isnan().all()


def test_scores_overflow_beside_a_masked_key_of_nan(normal):
    query, key, value = numbers(normal, 1e20, -1e20)
    kept = torch.arange(19) < 18
    context, weights = reference(query, key, value, keep=kept.expand(2, 2, 3, 19))
    key[:, :, 18] = value[:, :, 18] = math.nan
    seen = attend(query, key, value, mask=kept)
    assert_close(seen.context.double(), context, rtol=1e-5, atol=1e-5)
    assert_close(seen.pattern.dense().double(), weights, rtol=1e-5, atol=1e-5)


def test_gradients_of_products_that_overflow_equal_float64(normal):
    tensors = [part.requires_grad_() for part in numbers(normal, 1e20, -1e20)]
    exact = [part.detach().double().requires_grad_() for part in tensors]
    for query, key, value in (tensors, exact):
        score = ScaledDot(scale=1e-40)
        attend(query, key, value, score=score, mask=Causal()).context.square().sum().backward()
    for found, truth in zip(tensors, exact, strict=True):
        assert truth.grad.any()
        assert_close(found.grad.double(), truth.grad, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("mask", [None, Causal(), Padding(torch.tensor([0, 19])), Keep(torch.arange(19) > 30)])
def test_ordinary_numbers_are_left_to_the_fused_kernel_in_float32(normal, mask):
    query, key, value = numbers(normal, 1.0, 1.0)
    value[:, :, :, 3] = 0.0
    seen = attend(query, key, value, mask=mask)
    assert seen.backend == "fused"
    assert seen.pattern.dtype == torch.float32
