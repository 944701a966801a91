"""Attention that a model computes by separate operations, against the weights that the model itself has."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from watched_model import BATCH, BIAS, CAUSAL, HEADS, KEPT, PADDING, TOKENS, WIDTH, keep, minimal, model_of, run, watch

import regard


def nano(query, key, value):
    scores = (query @ key.transpose(-2, -1)) * (1.0 / math.sqrt(key.size(-1)))
    scores = scores.masked_fill(CAUSAL == 0, float("-inf"))
    return F.dropout(keep(F.softmax(scores, dim=-1)), 0.1, training=False) @ value


def masked_twice(query, key, value):
    weights = (query @ key.mT).masked_fill(~CAUSAL, -1e9).softmax(-1)
    return keep(weights.masked_fill(~CAUSAL, 0.0)) @ value


def with_a_boolean_bias(query, key, value):
    return keep((query @ key.mT + CAUSAL).softmax(-1)) @ value


def with_finite_mask(query, key, value):
    scores = torch.matmul(query, key.transpose(2, 3)) / torch.tensor(WIDTH**0.5)
    scores = torch.where(CAUSAL, scores, torch.finfo(scores.dtype).min) + BIAS
    return torch.matmul(keep(nn.functional.softmax(scores, dim=-1, dtype=torch.float32)).to(value.dtype), value)


def in_place(query, key, value):
    scores = query @ key.mT
    scores /= 3
    scores += BIAS
    scores.masked_fill_(~CAUSAL, -math.inf)
    return keep(scores.softmax(3)) @ value


def by_letters(query, key, value):
    scores = torch.einsum("bhid,bhjd->bhij", query, key) * 0.3 + BIAS
    return torch.einsum("b h i j, b h j d -> b h i d", keep(torch.softmax(scores, -1)), value)


def letters_in_another_order(query, key, value):
    query, key, value = (part.permute(2, 0, 1, 3) for part in (query, key, value))
    scores = torch.einsum("ibnd,jbnd->bnij", query, key)
    return torch.einsum("bnij,jbnd->ibnd", keep(torch.softmax(scores, dim=3)), value).permute(1, 2, 0, 3)


def by_ellipsis(query, key, value):
    return torch.einsum("...qk,...kd->...qd", keep(torch.einsum("...qd,...kd->...qk", query, key).softmax(-1)), value)


def packed(query, key, value):
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    bias = BIAS.repeat(BATCH, 1, 1)
    scores = bias.baddbmm(batch1=query, batch2=key.mT, beta=0.5, alpha=0.25).view(BATCH, HEADS, TOKENS, TOKENS)
    weights = keep(scores.masked_fill(~PADDING[:, None, None], -1e4).softmax(-1))
    return torch.bmm(weights.view(-1, TOKENS, TOKENS), value).unflatten(0, (BATCH, HEADS))


def masked_where(query, key, value):
    scores = query @ key.mT
    return keep(torch.where(~CAUSAL, -math.inf, scores).softmax(-1)) @ value


def packed_scores(scores_of):
    """Attention whose batch and heads are one axis; `scores_of` computes scores from (bias, query, keyᵀ)."""

    def attention(query, key, value):
        query, key, value = (part.flatten(0, 1) for part in (query, key, value))
        scores = scores_of(BIAS.repeat(BATCH, 1, 1), query, key.mT).view(BATCH, HEADS, TOKENS, TOKENS)
        return torch.bmm(keep(scores.softmax(-1)).flatten(0, 1), value).unflatten(0, (BATCH, HEADS))

    return attention


def twice_biased(bias, query, key):
    return torch.add(torch.baddbmm(bias, query, key, alpha=1), bias, alpha=1)


packed_by_default, packed_with_whole_numbers = packed_scores(torch.baddbmm), packed_scores(twice_biased)


def sum_of_products(query, key, value):
    return keep((query @ key.mT + query @ BIAS[0, :, :WIDTH].mT).softmax(-1)) @ value


def with_softcap(query, key, value):
    scores = 2 * torch.tanh(query @ key.mT / 2)
    return keep(scores.softmax(-1)) @ value


def in_groups(query, key, value):
    query = query[:, :1, None].expand(-1, 1, HEADS, -1, -1)
    weights = (query @ key[:, :1, None].mT).softmax(-1)
    keep(weights[:, 0])
    return (weights @ value[:, :1, None])[:, 0]


WRITTEN_OUT = [
    minimal, nano, masked_twice, with_a_boolean_bias, with_finite_mask, in_place, by_letters,
    letters_in_another_order, by_ellipsis, packed, masked_where, packed_with_whole_numbers, packed_by_default,
    sum_of_products, with_softcap, in_groups,
]  # fmt: skip


@pytest.mark.parametrize("attention", WRITTEN_OUT)
def test_the_pattern_of_attention_that_is_written_out_has_the_models_own_weights(attention):
    pattern = watch(attention)
    assert_close(pattern.dense(), KEPT["weights"], rtol=1e-5, atol=1e-6)


LOWEST = torch.finfo(torch.float32).min


@pytest.mark.parametrize(("bias", "has_bias"), [(torch.zeros(1), False), (BIAS, True)])
def test_the_lowest_numbers_of_a_bias_are_a_mask(bias, has_bias):
    masking = torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, LOWEST)
    pattern = watch(lambda query, key, value: keep(((query @ key.mT + (bias + masking)) / 5**0.5).softmax(-1)) @ value)
    assert_close(pattern.dense(), KEPT["weights"], rtol=1e-5, atol=1e-6)
    assert bool((pattern.keep(pattern.grid.whole()) == CAUSAL).all())
    assert (pattern.call.score.bias is not None) == has_bias
    assert pattern.scores().abs().max() < 1e3  # without the numbers that mask


def test_a_query_that_a_bias_lets_see_no_key_keeps_its_weights():
    masking = torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, LOWEST)
    masking[2] = LOWEST
    pattern = watch(lambda query, key, value: keep((query @ key.mT + masking).softmax(-1)) @ value)
    assert_close(pattern.dense(), KEPT["weights"], rtol=1e-5, atol=1e-6)
    assert pattern.call.mask is None


class Changing(nn.Module):
    """Attention whose module changes the context in place, as Nystromformer's does."""

    def __init__(self, change, function):
        super().__init__()
        self.change, self.function = change, function

    def forward(self, x):
        return self.change(self.function(x, x, x), x)


def add_in_place(context, x):
    context += x
    return context


def set_part_of_a_view(context, x):
    context.flatten(1, 2)[:, 0] = 7.0
    return context


CHANGES = [
    add_in_place,
    set_part_of_a_view,
    lambda context, x: context.mul_(3),
    lambda context, x: torch.add(context, x, out=None),
    lambda context, x: F.relu(context, inplace=True),
]


@pytest.mark.parametrize("function", [minimal, F.scaled_dot_product_attention], ids=["written", "sdpa"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_context_that_is_changed_in_place_is_recorded_as_it_was(change, function):
    x = torch.randn(BATCH, HEADS, TOKENS, WIDTH)
    model = Changing(change, function)
    plain = model(x)
    with regard.watching(model) as watched:
        output = model(x)
    assert torch.equal(output, plain)
    (step,) = watched.steps
    assert torch.equal(step.attended.context, function(x, x, x))
    assert watched.check().max_error < 1e-5


@pytest.mark.parametrize("attention", [a for a in WRITTEN_OUT if a is not with_softcap])
def test_queries_and_keys_of_written_out_attention_are_found(attention):
    assert watch(attention).query.shape[-1] == WIDTH


def test_scores_that_are_no_product_are_kept_as_they_are():
    pattern = watch(with_softcap)
    assert pattern.query.shape[-1] == 1
    assert not pattern.query.any()


def test_a_tensor_that_was_changed_without_a_rule_is_not_taken_for_what_it_was():
    def changed(query, key, value):
        scores = query @ key.mT
        scores[..., 2] = -math.inf
        scores.clamp_(max=1.0)
        return keep(scores.softmax(-1)) @ value

    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            assert_close(watch(changed).dense(), KEPT["weights"])


SINKS = torch.tensor([0.5, -1.0])


LAST, FIRST = (..., slice(None, -1)), (..., slice(1, None))
"""What is left of the weights without their last column, and without their first."""


def with_sinks(change=lambda scores: scores, kept=LAST, cut=True):
    """Attention as gpt-oss computes it: a sink takes part in the softmax and has no value.

    The sinks are the first or the last column, of which `kept` leaves one out.
    """

    def attention(query, key, value):
        scores = query @ key.mT
        column = SINKS[:, None, None].expand(BATCH, -1, TOKENS, 1)
        parts = [column, scores] if kept[-1] == FIRST[-1] else [scores, column]
        scores = change(torch.cat(parts, dim=-1))
        weights = keep((scores - scores.max(dim=-1, keepdim=True).values).softmax(dim=-1))
        return weights[kept] @ value if cut else weights @ F.pad(value, (0, 0, 0, 1))

    return attention


@pytest.mark.parametrize("kept", [LAST, FIRST, (*[slice(None)] * 3, LAST[-1]), (*[slice(None)] * 3, FIRST[-1])])
def test_sinks_in_written_out_attention_are_found(kept):
    pattern = watch(with_sinks(kept=kept))
    assert_close(pattern.dense(), KEPT["weights"][kept])
    assert torch.equal(pattern.call.normalise.sinks, SINKS)
    assert pattern.query.shape[-1] == WIDTH


def test_a_column_of_sinks_with_a_value_is_a_key():
    assert_close(watch(with_sinks(cut=False)).dense(), KEPT["weights"])


@pytest.mark.parametrize("kept", [LAST, FIRST])
def test_sinks_beside_other_scores_are_named(kept):
    model = model_of(with_sinks(change=lambda scores: scores * 2, kept=kept))
    with regard.watching(model) as watched:
        run(model, torch.randn(BATCH, TOKENS, HEADS * WIDTH))
    assert not watched.steps
    assert watched.unseen == {
        "blocks.0": "its pattern cannot be made: its softmax has sinks, and its scores are more than a scaled, masked "
        "and biased product."
    }


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_in_a_small_type_are_the_models_own(dtype):
    def small(query, key, value):
        scores = query.to(dtype) @ key.to(dtype).mT
        return (keep(scores.softmax(-1, dtype=torch.float32)).to(dtype) @ value.to(dtype)).float()

    model, x = model_of(small), 3 * torch.randn(BATCH, TOKENS, HEADS * WIDTH)
    with regard.watching(model) as watched:
        run(model, x)
    pattern = watched.steps[0].attended.pattern
    assert_close(pattern.dense(), KEPT["weights"], rtol=1e-5, atol=1e-6)
