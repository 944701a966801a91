"""Patterns of assisted and prompt-lookup decoding against the weights of the same decoding with eager attention."""

import copy

import pytest
import torch
from torch.testing import assert_close
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import regard
from regard import Causal, Pattern, ScaledDot, attend
from regard.tracing.watching.assisted_decoding import part_of

PLAIN = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None, "vocab_size": 13}
MODELS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(n_positions=64, n_embd=24, n_layer=2, n_head=4, **PLAIN)),
    "llama": (
        LlamaForCausalLM,
        LlamaConfig(
            hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
            **PLAIN,
        ),
    ),
    "t5 with a position bias": (
        T5ForConditionalGeneration,
        T5Config(d_model=24, d_kv=4, d_ff=37, num_layers=2, num_heads=6, decoder_start_token_id=0, **PLAIN),
    ),
}  # fmt: skip


def eager_model(kind, config, seed):
    torch.manual_seed(seed)
    config = copy.deepcopy(config)
    config._attn_implementation = "eager"
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.4)
    return model


@pytest.mark.parametrize("way", ["the model itself", "another model", "prompt lookup"])
@pytest.mark.parametrize(("kind", "config"), MODELS.values(), ids=MODELS)
def test_each_token_has_patterns(kind, config, way):
    eager = eager_model(kind, config, seed=0)
    candidates = {
        "the model itself": {"assistant_model": copy.deepcopy(eager)},
        "another model": {"assistant_model": eager_model(kind, config, seed=1)},
        "prompt lookup": {"prompt_lookup_num_tokens": 3},
    }[way]
    ids = torch.tensor([[3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 3, 4]])
    options = {"max_new_tokens": 7, "do_sample": False, "return_dict_in_generate": True, "output_attentions": True}
    expected = eager.generate(ids, **options, **candidates)
    seen = regard.install(copy.deepcopy(eager)).generate(ids, **options, **candidates)
    assert torch.equal(seen.sequences, expected.sequences)
    names = ["decoder_attentions", "cross_attentions"] if config.is_encoder_decoder else ["attentions"]
    for name in names:
        assert len(seen[name]) == len(expected[name]) == 7
        for layers, weights in zip(seen[name], expected[name], strict=True):
            assert all(isinstance(layer, Pattern) for layer in layers)
            for layer, weight in zip(layers, weights, strict=True):
                assert_close(layer.dense(), weight, atol=2e-6, rtol=1e-4)


def test_a_part_without_keys_that_the_queries_see_is_a_tensor(normal):
    """The weights of the part must not be normalised anew."""
    query, key = normal(1, 2, 5, 3), normal(1, 2, 7, 3)
    pattern = attend(query, key, key, score=ScaledDot(bias=normal(2, 5, 7)), mask=Causal()).pattern
    part = part_of(pattern, slice(2, 4), slice(None, 6))
    assert isinstance(part, Pattern)
    assert_close(part.dense(), pattern.dense()[..., 2:4, :6])
    cut = part_of(pattern, slice(2, 4), slice(None, 5))
    assert isinstance(cut, torch.Tensor)
    assert_close(cut, pattern.dense()[..., 2:4, :5])
