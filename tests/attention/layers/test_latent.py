"""Latent attention against transformers' DeepSeek-V3 with its parameters copied, with and without a cache."""

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import Alibi, Causal, Keep, LatentAttention, MultiHeadAttention, Padding, ScaledDot, Softmax, attend

SIZES = {"d_model": 22, "n_heads": 3, "d_latent": 7, "d_rotary": 4, "d_key": 5, "d_value": 6}


def deepseek(d_query_latent):
    """Return transformers' DeepSeek-V3 attention and our `LatentAttention` with the same, large parameters."""
    from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding

    config = DeepseekV3Config(
        hidden_size=22, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=d_query_latent, kv_lora_rank=7,
        qk_rope_head_dim=4, qk_nope_head_dim=5, v_head_dim=6, attention_bias=False, attn_implementation="eager",
        max_position_embeddings=64,
    )  # fmt: skip
    theirs = DeepseekV3Attention(config, layer_idx=0).eval()
    random = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.6, generator=random)
    ours = LatentAttention(**SIZES, d_query_latent=d_query_latent)
    with torch.no_grad():
        if d_query_latent is None:
            ours.to_query.weight.copy_(theirs.q_proj.weight)
        else:
            parts = theirs.q_a_proj, theirs.q_a_layernorm, theirs.q_b_proj
            for part, given in zip(ours.to_query, parts, strict=True):
                part.weight.copy_(given.weight)
        latent, turned = theirs.kv_a_proj_with_mqa.weight.split([7, 4])
        ours.to_latent.weight.copy_(latent)
        ours.to_rotary_key.weight.copy_(turned)
        ours.norm.weight.copy_(theirs.kv_a_layernorm.weight)
        by_head = theirs.kv_b_proj.weight.reshape(3, 11, 7)
        ours.to_key.weight.copy_(by_head[:, :5].reshape(15, 7))
        ours.to_value.weight.copy_(by_head[:, 5:].reshape(18, 7))
        ours.to_output.weight.copy_(theirs.o_proj.weight)
    return theirs, DeepseekV3RotaryEmbedding(config), ours


@pytest.mark.parametrize("d_query_latent", [None, 8])
def test_it_equals_transformers_deepseek(normal, d_query_latent):
    theirs, rotary, ours = deepseek(d_query_latent)
    x = normal(2, 11, 22)
    barred = torch.full((11, 11), -torch.inf).triu(1)[None, None]
    output, weights = theirs(x, rotary(x, torch.arange(11)[None]), barred)
    read = ours(x, mask=Causal())
    assert_close(read.output, output, rtol=1e-4, atol=1e-5)
    assert_close(read.pattern.dense(), weights, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("steps", [[11], [6, 5], [4, 1, 1, 5], [1] * 11], ids=str)
def test_with_a_cache_tokens_read_as_they_do_all_at_once(normal, steps):
    module, x = LatentAttention(**SIZES).double(), normal(2, 11, 22, dtype=torch.float64)
    whole, cache, seen = module(x, mask=Causal()), None, 0
    for n_tokens in steps:
        read = module(x[:, seen : seen + n_tokens], mask=Causal(), cache=cache)
        rows = slice(seen, seen + n_tokens)
        cache, seen = read.cache, seen + n_tokens
        assert_close(read.output, whole.output[:, rows])
        assert_close(read.pattern.dense(), whole.pattern[:, :, rows, :seen])
    assert cache.latent.shape == (2, 11, 7)
    assert cache.rotary_key.shape == (2, 11, 4)
    assert_close(cache.latent, whole.cache.latent)


def test_with_a_cache_keys_and_values_of_heads_are_never_computed(normal, monkeypatch):
    module, x = LatentAttention(**SIZES), normal(2, 11, 22)
    first = module(x[:, :10], mask=Causal())
    monkeypatch.setattr(module.to_key, "forward", None)
    monkeypatch.setattr(module.to_value, "forward", None)
    step = module(x[:, 10:], mask=Causal(), cache=first.cache)
    assert step.attended.context.shape == (2, 3, 1, 7)


def test_with_a_cache_padding_on_the_left_changes_nothing(normal):
    module, x = LatentAttention(**SIZES).double(), normal(1, 7, 22, dtype=torch.float64)
    padded = torch.cat([torch.full((1, 3, 22), 9.0, dtype=torch.float64), x], dim=1)
    tokens = Keep(torch.arange(10) >= 3)
    first = module(padded[:, :8], mask=Causal() & Keep(torch.arange(8) >= 3))
    second = module(padded[:, 8:], mask=Causal() & tokens, cache=first.cache)
    assert_close(second.output, module(x, mask=Causal()).output[:, 5:])


def test_a_call_may_bring_its_own_score_and_normaliser(normal):
    module, x = LatentAttention(**SIZES).double(), normal(2, 11, 22, dtype=torch.float64)
    plain, normalise = module(x).pattern, Softmax(sinks=torch.tensor([0.5, -1.0, 2.0]).double())
    for scale, used in ((3.0, 3.0), (None, 9**-0.5)):  # without a scale, that of keys of 5 + 4 numbers
        score, expected_score = ScaledDot(scale, bias=Alibi()), ScaledDot(used, bias=Alibi())
        whole = module(x, score=score, normalise=normalise)
        expected = attend(plain.query, plain.key, plain.value, score=expected_score, normalise=normalise)
        assert_close(whole.attended.context, expected.context)
        first = module(x[:, :9], score=score, normalise=normalise)
        step = module(x[:, 9:], cache=first.cache, score=score, normalise=normalise)
        assert_close(step.output, whole.output[:, 9:])


@pytest.mark.parametrize("d_query_latent", [None, 8])
def test_under_autocast_a_cache_is_read_in_the_type_of_the_projections(normal, d_query_latent):
    module, x = LatentAttention(**SIZES, d_query_latent=d_query_latent), normal(2, 11, 22)
    whole = module(x, mask=Causal())
    with torch.autocast("cpu", torch.bfloat16):
        first = module(x[:, :10], mask=Causal())
        step = module(x[:, 10:], mask=Causal(), cache=first.cache)
    assert {step.output.dtype, step.cache.latent.dtype, step.cache.rotary_key.dtype} == {torch.bfloat16}
    assert_close(step.output.float(), whole.output[:, 10:], rtol=0.05, atol=0.05)


def test_gradients_are_right_with_and_without_a_cache(normal):
    module, x = LatentAttention(4, 2, d_latent=3, d_rotary=2).double(), normal(1, 5, 4, dtype=torch.float64)
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: module(x, mask=Padding(torch.tensor([4]))).output, x)
    assert torch.autograd.gradcheck(lambda x: module(x[:, 3:], mask=Causal(), cache=module.prepare(x[:, :3])).output, x)


def test_sizes_that_are_not_given_are_derived():
    module = LatentAttention(12, 3, d_latent=5, d_rotary=2)
    assert repr(module).splitlines()[1].strip() == "n_heads=3, d_latent=5, d_rotary=2, d_key=4, d_value=4"
    assert module.to_output.weight.shape == (12, 12)


def test_refusals():
    assert refusal(ValueError, lambda: LatentAttention(10, 3, d_latent=5, d_rotary=2)) == (
        "d_model=10 does not split evenly into n_heads=3; give the width of a head's keys as d_key."
    )
    assert refusal(ValueError, lambda: LatentAttention(12, 3, d_latent=5, d_rotary=3)) == (
        "d_rotary=3 numbers cannot be rotated in pairs; it must be even and at least 2."
    )


def test_a_cache_of_another_layer_is_refused(without_type_checks):
    x, layer = torch.ones(2, 3, 12), LatentAttention(12, 3, d_latent=5, d_rotary=2)
    assert refusal(TypeError, layer, x, cache=MultiHeadAttention(12, 3)(x).cache) == (
        "cache is a KeyValue; it takes the cache of an earlier call, layer(x).cache."
    )
    other = LatentAttention(12, 3, d_latent=7, d_rotary=2)(x).cache
    assert refusal(ValueError, layer, x[:, :1], cache=other) == (
        "the cache has latents of shape [2, 3, 7], and those of the new tokens have shape [2, 1, 5]; only the numbers "
        "of tokens (axis 1) may differ: give the cache that this layer returned for the same batch items."
    )
