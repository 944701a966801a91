"""Tests of gradients if a masked-out key is NaN, infinite or very large: they equal those for a key of zeros."""

import math

import pytest
import torch
from kinds import MASKS, NORMALISERS, SCORES, built
from torch.testing import assert_close

from regard import Causal, Keep, ScaledDot, attend, use_backend
from regard.attention.masks import as_mask
from regard.attention.stages import tensors_in

KEYS = 19
KEPT = torch.arange(KEYS) < KEYS - 1
"""The mask: all queries may attend to all keys but the last."""

PLACES = "key", "value", "key and value"
NUMBERS = math.nan, math.inf, -math.inf, 3.4e38


def filled_at_last(tensor, number):
    """Return a copy of a tensor, requiring gradients, in which all numbers of the last key's vector are `number`."""
    return torch.where(KEPT[:, None], tensor.detach(), number).requires_grad_()


def gradients(case, place, number, mask, dtype=torch.float64, queries=slice(None)):
    """Return the gradients of query, key, value and all parameters after overwriting the last key or value.

    Args:
        queries: the queries on which the loss depends.
    """
    query = case.query.detach().to(dtype).requires_grad_()
    key = filled_at_last(case.key.to(dtype), number if "key" in place else 0.0)
    value = filled_at_last(case.value.to(dtype), number if "value" in place else 0.0)
    parameters = [part for part in tensors_in(case.score, case.normalise) if part.requires_grad]
    context = attend(query, key, value, score=case.score, mask=mask, normalise=case.normalise).context[:, :, queries]
    loss = (context * torch.linspace(-1, 1, context.shape[-1], dtype=dtype)).square().sum()
    return torch.autograd.grad(loss, (query, key, value, *parameters), allow_unused=True)


def check_law(case, place, number, mask, dtype=torch.float64):
    """Fail unless the gradients equal those for a masked-out key and value of zeros, and the key's own are 0."""
    found, expected = (gradients(case, place, one, mask, dtype) for one in (number, 0.0))
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    assert_close(found, expected, **close)
    assert all(gradient.isfinite().all() for gradient in found if gradient is not None)
    assert not any(gradient[:, :, -1].any() for gradient in found[1:3] if gradient is not None)
    assert expected[0].any()


@pytest.mark.parametrize("backend", ["fused", "math", "tiled"])
@pytest.mark.parametrize("name", MASKS)
def test_gradients_are_those_of_a_key_of_zeros_for_every_backend_and_mask(backend, name):
    case = built({"mask": name}, (7, KEYS))
    mask = Keep(KEPT) if case.mask is None else as_mask(case.mask) & Keep(KEPT)
    with use_backend(backend):
        for place in PLACES:
            check_law(case, place, math.nan, mask, torch.float32)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("mask", [Keep(KEPT), Causal(-1), Causal(0)], ids=repr)
def test_gradients_are_those_of_a_key_of_zeros_for_every_number(place, number, mask):
    for dtype in (torch.float32, torch.float64):
        check_law(built({}, (7, KEYS)), place, number, mask, dtype)


@pytest.mark.parametrize(
    ("stage", "name"),
    [*(("normalise", name) for name in NORMALISERS if NORMALISERS[name].smooth), *(("score", name) for name in SCORES)],
)
def test_gradients_are_those_of_a_key_of_zeros_for_every_normaliser_and_score(stage, name):
    case = built({stage: name}, (7, KEYS))
    for number in (math.nan, math.inf):
        check_law(case, "key and value", number, Keep(KEPT))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_query_has_the_gradient_of_the_keys_that_it_sees(number):
    case = built({}, (KEYS, KEYS))
    found, expected = (gradients(case, "key", one, Causal(), queries=slice(-1)) for one in (number, 0.0))
    assert_close(found[0][:, :, :-1], expected[0][:, :, :-1])


def test_gradients_of_a_patterns_weights_are_those_of_a_key_of_zeros(normal):
    query, value = normal(1, 2, 7, 8).requires_grad_(), normal(1, 2, KEYS, 8)
    found = []
    for number in (math.nan, 0.0):
        key = filled_at_last(value, number)
        pattern = attend(query, key, value, mask=KEPT).pattern
        found.append(torch.autograd.grad(pattern[0, 1].square().sum(), (query, key)))
    assert_close(*found)
    assert found[0][0].any()


def test_gradients_of_a_trained_bias_that_masks_a_key_out_are_those_of_a_key_of_zeros(normal):
    query, value = normal(1, 2, 7, 8).requires_grad_(), normal(1, 2, KEYS, 8)
    found = []
    for number in (math.nan, 0.0):
        key, learned = filled_at_last(value, number), torch.zeros(KEYS, requires_grad=True)
        score = ScaledDot(bias=learned.masked_fill(~KEPT, -math.inf))
        context = attend(query, key, filled_at_last(value, number), score=score).context
        found.append(torch.autograd.grad(context.square().sum(), (query, key, learned)))
    assert_close(*found)
    assert found[0][2].any()


def test_gradients_with_dropout_are_finite(normal):
    query, value = normal(1, 2, 7, 8).requires_grad_(), normal(1, 2, KEYS, 8)
    key = filled_at_last(value, math.nan)
    context = attend(query, key, filled_at_last(value, math.nan), mask=KEPT, dropout=0.5).context
    context.square().sum().backward()
    assert query.grad.isfinite().all()
    assert query.grad.any()
    assert key.grad.isfinite().all()
