"""Tests of the float64 reference that other tests compare with: against torch's attention, and by hand."""

import math

import pytest
import torch
from oracle import BATCH, D_KEY, D_VALUE, HEADS, KEY_HEADS, MASKS, SIZES, eager, masks, matrix, near, row
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from regard.attention.backends.reference import reference


@pytest.fixture
def inputs(normal):
    def draw(queries, keys):
        query = normal(BATCH, HEADS, queries, D_KEY, dtype=torch.float64)
        key = normal(BATCH, KEY_HEADS, keys, D_KEY, dtype=torch.float64)
        return query, key, normal(BATCH, KEY_HEADS, keys, D_VALUE, dtype=torch.float64)

    return draw


@pytest.mark.parametrize(("queries", "keys", "name"), MASKS)
def test_context_and_weights_under_every_mask_are_torchs(inputs, queries, keys, name):
    query, key, value = inputs(queries, keys)
    keep = matrix(masks(queries, keys)[name][1], BATCH, HEADS, queries, keys)
    context, weights = reference(query, key, value, keep=keep)
    group, identity = HEADS // KEY_HEADS, torch.eye(keys, dtype=torch.float64).expand(BATCH, KEY_HEADS, keys, keys)
    with sdpa_kernel(SDPBackend.MATH):
        near(context, scaled_dot_product_attention(query, key, value, keep, enable_gqa=group > 1))
        near(weights, scaled_dot_product_attention(query, key, identity, keep, enable_gqa=group > 1))


@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("scale", [None, 0.3, -0.3])
def test_bias_and_scale_are_torchs(inputs, normal, queries, keys, scale):
    query, key, value = inputs(queries, keys)
    bias = normal(BATCH, HEADS, queries, keys, dtype=torch.float64)
    with sdpa_kernel(SDPBackend.MATH):
        truth = scaled_dot_product_attention(query, key, value, bias, scale=scale, enable_gqa=True)
    near(reference(query, key, value, bias=bias, scale=scale)[0], truth)


@pytest.mark.parametrize(
    "options", [{"softcap": 0.7}, {"temperature": 0.3}, {"sinks": torch.linspace(-2, 2, HEADS, dtype=torch.float64)}]
)
def test_options_that_torch_lacks_are_the_formula_in_plain_torch(inputs, options):
    query, key, value = inputs(5, 17)
    near(reference(query, key, value, **options), eager(query, key, value, **options))


def test_by_hand():
    one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    key = torch.tensor([0.0, math.log(3.0)], dtype=torch.float64).reshape(1, 1, 2, 1)
    value = torch.tensor([8.0, 4.0]).reshape(1, 1, 2, 1)
    context, weights = reference(one, key, value)
    near(weights, row(1 / 4, 3 / 4))
    near(context, row(5.0))
    near(reference(one, key, value, sinks=torch.zeros(1))[1], row(1 / 5, 3 / 5))
    near(reference(one, key, value, temperature=0.5)[1], row(1 / 10, 9 / 10))
    assert reference(one, key, value, temperature=0.0)[1].flatten().tolist() == [0.0, 1.0]
    tied = reference(one, key[:, :, [1, 0, 1]], value[:, :, [1, 0, 1]], temperature=0.0)
    assert tied[1].flatten().tolist() == [0.5, 0, 0.5]
