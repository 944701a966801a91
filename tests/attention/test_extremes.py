"""Tests of extreme numbers, sizes and layouts, for every kind of attention: the result is right, or is refused.

A result is right if it equals that of float64; other files test the kinds in float64.
"""

import math
from dataclasses import replace

import pytest
import torch
from kinds import NORMALISERS, STAGES, Case, built, products, title
from oracle import HALF
from refusals import refusal
from torch.testing import assert_close

from regard import attend
from regard.attention.backends.reference import reference


def each(*stages, without=()):
    """Parametrise a test over every kind of these stages; the other stages have default kinds."""
    kinds = [(stage, name) for stage in stages for name in STAGES[stage] if not name.startswith(without)]
    return pytest.mark.parametrize(
        "names", [{stage: name} for stage, name in kinds], ids=[f"{stage}-{name}" for stage, name in kinds]
    )


def in_products(test):
    """Parametrise a test over cases in which every kind comes at least once."""
    cases = products(test.__name__)
    return pytest.mark.parametrize("names", cases, ids=title)(test)


def case_of(names, dtype=torch.float32, sizes=(3, 7), heads=(6, 3), batch=(2, 2, 2), query=1.0, key=1.0):
    """Return the case of the named kinds with queries and keys scaled, and all numbers converted to a data type."""
    case = built(names, sizes, heads, batch)
    case = replace(
        case, query=(query * case.query).to(dtype), key=(key * case.key).to(dtype), value=case.value.to(dtype)
    )
    return replace(case, score=case.score.of_type(case.query))  # a bias is rounded to the type of the query


def in_float64(case: Case) -> Case:
    return replace(case, query=case.query.double(), key=case.key.double(), value=case.value.double())


def assert_right(case):
    """Fail unless context and weights equal those in float64, up to rounding of the largest score."""
    with torch.no_grad():
        found, truth = case.attend(), in_float64(case).attend()
        scores = truth.pattern.scores()
        largest = max(1.0, *scores[scores.isfinite()].abs().amax().reshape(1).tolist())
        digit, score_digit = torch.finfo(case.query.dtype).eps, torch.finfo(torch.float32).eps * largest
        # Roundings of both signs add up as the weights' norm, which is past 1 where they need not sum to 1.
        size = float(case.value.abs().double().max() * truth.pattern.dense().norm(dim=-1).clamp(min=1).max())
        assert found.context.isfinite().all()
        assert_close(found.pattern.dense().double(), truth.pattern.dense(), rtol=0, atol=30 * score_digit)
        assert_close(found.context.double() / size, truth.context / size, rtol=0, atol=30 * (digit + score_digit))


# Numbers


@each("score", "normalise")
def test_large_and_tiny_scores_and_half_types(names):
    for dtype, size in ((torch.float32, 1e4), (torch.float32, 1e-40), (torch.float16, 1e4), (torch.bfloat16, 1.0)):
        assert_right(case_of(names, dtype, query=size))


@each("mask")
def test_masks_of_large_scores_in_half_types(names):
    for dtype in HALF:
        assert_right(case_of(names, dtype, query=1e4))


@each("score", "mask", "normalise")
def test_values_at_the_limit_of_a_half_type(names):
    for dtype in HALF:
        case = case_of(names, dtype)
        kind = NORMALISERS[case.names["normalise"]]
        share = 1.0 if kind.sum in ("1", "at most 1") else 1 / 50  # weights whose sum is larger would overflow
        assert_right(replace(case, value=torch.full_like(case.value, share * torch.finfo(dtype).max)))


@each("score", "normalise")
def test_queries_and_keys_at_the_limit_of_a_type_give_all_weight_to_the_largest(names):
    for dtype, limit in ((torch.float16, 65504.0), (torch.bfloat16, 1e17), (torch.float32, 1e17)):
        case = case_of(names, dtype)
        case = replace(case, query=limit * (case.query / 4).clamp(-1, 1), key=limit * (case.key / 4).clamp(-1, 1))
        found, truth = case.attend(), in_float64(case).attend()
        assert_close(found.pattern.dense().double(), truth.pattern.dense(), rtol=0, atol=1e-4)
        digit = torch.finfo(dtype).eps
        assert_close(found.context.double(), truth.context, rtol=9 * digit, atol=9 * digit)


@each("score", "normalise", without=("Additive", "Concat", "LocationAware"))  # whose tanh is 1 at ∞
def test_scores_past_the_largest_number_are_those_of_float64(names):
    case = case_of(names, query=1e38, key=1e38)
    assert case.key.isinf().any()  # a key that float32 cannot hold
    found, truth = case.attend(), in_float64(case).attend()
    for here, there in ((found.context, truth.context), (found.pattern.dense(), truth.pattern.dense())):
        assert_close(here.double(), there, rtol=1e-4, atol=1e-4, equal_nan=True)


# Sizes


@each("score", "mask", "normalise")
def test_one_key(names):
    for queries in (3, 1):
        assert_right(case_of(names, sizes=(queries, 1)))


@each("score", "mask", "normalise")
def test_65_536_keys(names):
    assert_right(case_of(names, sizes=(1, 65_536), heads=(1, 1), batch=(1, 1, 1)))


@in_products
def test_no_keys_and_no_queries(names):
    for sizes in ((3, 0), (0, 7), (0, 0)):
        if names["mask"] in ("Global", "Either") and sizes[1] == 0:
            assert refusal(ValueError, case_of(names, sizes=sizes).attend) == (
                "Global was given position 0, but there are 0 keys; positions count from 0, so they must be below 0."
            )
        else:
            assert_empty(case_of(names, sizes=sizes))


@in_products
def test_no_items(names):
    for batch in ((0, 0, 0), (1, 0, 0), (0, 1, 0)):
        assert_empty(case_of(names, batch=batch))


@in_products
def test_the_context_of_no_queries_has_a_gradient(names):
    case = case_of(names, sizes=(0, 7))
    value = case.value.clone().requires_grad_()
    case.attend(value=value).context.sum().backward()
    assert torch.equal(value.grad, torch.zeros_like(value))


def assert_empty(case):
    """Fail unless a call without numbers gives empty results of the usual shapes."""
    seen, grid = case.attend(), case.grid
    assert seen.context.shape == (*grid.shape[:3], case.value.shape[3])
    assert not seen.context.any()
    pattern = seen.pattern
    assert pattern.dense().shape == pattern.scores().shape == grid.shape
    no_sums = torch.zeros(grid.batch, grid.heads, grid.keys)
    assert torch.equal(pattern.received(), no_sums)
    if not case.normalise.signed:  # which has no entropy
        assert pattern.entropy().shape == grid.shape[:3]
        assert not pattern.entropy().any()
    assert pattern.apply(case.value).shape == seen.context.shape
    assert torch.equal(pattern.back(torch.ones(grid.shape[:3])), no_sums)


@pytest.mark.parametrize("key_heads", [0, 3])
def test_no_heads_are_refused(key_heads):
    tensors = torch.ones(2, 0, 3, 5), torch.ones(2, key_heads, 7, 5), torch.ones(2, key_heads, 7, 3)
    assert refusal(ValueError, attend, *tensors) == "query has 0 heads; attention needs at least one."


def test_vectors_of_one_number(normal):
    query, key, value = normal(2, 6, 5, 1), normal(2, 3, 7, 1), normal(2, 3, 7, 1)
    context, weights = reference(query, key, value)
    seen = attend(query, key, value)
    assert_close(seen.context.double(), context, rtol=1e-6, atol=1e-6)
    assert_close(seen.pattern.dense().double(), weights, rtol=1e-6, atol=1e-6)


# Layouts


@in_products
def test_strided_tensors_are_read_as_they_stand(names):
    case = case_of(names)

    def strided(tensor):
        batch, heads, tokens, width = tensor.shape
        apart = torch.full((batch, tokens, 2 * width, heads), math.nan).permute(0, 3, 1, 2)[..., ::2]
        return apart.copy_(tensor)

    there = replace(case, query=strided(case.query), key=strided(case.key), value=strided(case.value))
    assert not there.key.is_contiguous()
    assert_alike(there, case)


@in_products
def test_expanded_tensors_are_read_as_if_they_were_written_out(names):
    case = case_of(names)
    query = case.query[:, :1].expand_as(case.query)
    key, value = case.key[:, :, :1].expand_as(case.key), case.value[:1, :1, :1].expand_as(case.value)
    there = replace(case, query=query, key=key, value=value)
    assert_alike(there, replace(case, query=query.clone(), key=key.clone(), value=value.clone()))


def assert_alike(there, here):
    """Fail unless two calls have the same context, weights and statistics."""
    assert_close(there.attend().context, here.attend().context, rtol=1e-5, atol=1e-5)
    assert_close(there.attend().pattern.dense(), here.attend().pattern.dense(), rtol=1e-5, atol=1e-5)
