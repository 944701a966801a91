"""T5's relative bias: against transformers' own module, gradients, and a layer that holds it."""

import copy

import pytest
import torch
from oracle import eager
from refusals import refusal
from torch import nn
from torch.testing import assert_close

from regard import Causal, MultiHeadAttention, RelativeBias, ScaledDot, attend
from regard.attention.grid.grid import Grid
from regard.attention.scores.biases.relative_bias import relative_buckets

CPU = torch.device("cpu")
GRID = Grid(2, 6, 11, 19)


def relative(normal, n_heads=6, **given):
    """Return a RelativeBias whose parameters are all different."""
    bias = RelativeBias(n_heads, **{"n_buckets": 8, "max_distance": 13, **given})
    with torch.no_grad():
        bias.by_bucket.copy_(normal(*bias.by_bucket.shape))
    return bias


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 13), (6, 17), (4, 2), (64, 1009)])
def test_buckets_equal_t5s(n_buckets, max_distance, bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-2 * max_distance - 3, 2 * max_distance + 4)
    expected = T5Attention._relative_position_bucket(distance, bidirectional, n_buckets, max_distance)
    assert torch.equal(relative_buckets(distance, n_buckets, max_distance, bidirectional), expected)


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (3, 211), (1, 19)])
def test_relative_bias_equals_t5s_with_its_parameters_copied(decoder, queries, keys):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=20, num_heads=5, d_kv=4, is_decoder=decoder, relative_attention_max_distance=61)
    module = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    bias = RelativeBias(5, max_distance=61, bidirectional=not decoder)
    bias.load_state_dict({"by_bucket": module.relative_attention_bias.weight})
    expected = module.compute_bias(queries, keys, past_seen_tokens=keys - queries)
    assert_close(bias(Grid(1, 5, queries, keys).whole(), CPU), expected)


def test_a_t5_layer_is_equal_with_its_parameters_copied(normal):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=20, num_heads=5, d_kv=4, dropout_rate=0.0)
    config._attn_implementation = "eager"
    module, x = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval(), normal(2, 7, 20)
    bias = RelativeBias(5)
    bias.load_state_dict({"by_bucket": module.relative_attention_bias.weight})
    query, key, value = (into(x).view(2, 7, 5, 4).transpose(1, 2) for into in (module.q, module.k, module.v))
    seen = attend(query, key, value, score=ScaledDot(scale=1.0, bias=bias))  # T5 does not scale
    assert_close(module.o(seen.context.transpose(1, 2).flatten(2)), module(x)[0])


def test_gradients_equal_those_of_the_same_numbers_as_a_tensor(normal):
    bias = relative(normal)
    query, key, value = normal(2, 6, 11, 5), normal(2, 3, 19, 5), normal(2, 3, 19, 7)
    attend(query, key, value, score=ScaledDot(bias=bias), mask=Causal()).context.square().sum().backward()
    found, bias.by_bucket.grad = bias.by_bucket.grad, None
    numbers = bias(GRID.whole(), CPU)
    keep = torch.ones(11, 19, dtype=torch.bool).tril(8)
    eager(query, key, value, keep=keep, bias=numbers)[0].square().sum().backward()
    assert_close(found, bias.by_bucket.grad)


def test_a_layer_trains_moves_and_saves_the_bias_that_its_score_holds(normal):
    bias = relative(normal, 3)
    layer = MultiHeadAttention(d_model=12, n_heads=3, score=ScaledDot(bias=bias))
    assert any(parameter is bias.by_bucket for parameter in layer.parameters())
    twin = copy.deepcopy(layer)
    assert twin.score.bias is not bias
    assert any(parameter is twin.score.bias.by_bucket for parameter in twin.parameters())
    x, before = normal(2, 7, 12), layer(normal(2, 7, 12)).output
    nn.init.constant_(twin.score.bias.by_bucket, 0.0)
    assert not torch.equal(twin(x).output, layer(x).output)
    twin.load_state_dict(layer.state_dict())
    assert torch.equal(twin(x).output, layer(x).output)
    before.sum().backward()
    assert bool(bias.by_bucket.grad.any())
    assert not any("held" in name for name in MultiHeadAttention(d_model=12, n_heads=3).state_dict())


def test_an_untrained_bias_changes_nothing(normal):
    query = normal(1, 3, 5, 7)
    plain, biased = attend(query, query, query), attend(query, query, query, score=ScaledDot(bias=RelativeBias(3)))
    assert torch.equal(plain.pattern.dense(), biased.pattern.dense())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        *(
            (
                lambda n=n: RelativeBias(3, n_buckets=n),
                f"n_buckets={n} with bidirectional=True; it must be an even number of at least 4.",
            )
            for n in (7, 2)
        ),
        (
            lambda: RelativeBias(3, n_buckets=1, bidirectional=False),
            "n_buckets=1 with bidirectional=False; it must be at least 2.",
        ),
        (
            lambda: RelativeBias(3, max_distance=8),
            "max_distance=8 must be above 8: with n_buckets=32, each of the first 8 distances has its own bucket; "
            "use a larger max_distance or fewer buckets.",
        ),
        (
            lambda: RelativeBias(5).check(Grid(1, 3, 5, 5)),
            "RelativeBias has numbers for 5 heads and query has 3 heads; build it with RelativeBias(3).",
        ),
    ],
)
def test_refusals(build, message):
    assert refusal(ValueError, build) == message
