"""Patterns in Hugging Face models against the weights that their own eager attention builds.

The models are small and random, with parameters large enough for attention to be sharp: a dropped mask or a wrong scale
then changes everything.
"""

import copy
from pathlib import Path

import pytest
import torch
import transformers
from refusals import refusal
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

import regard
from regard import InputError, Pattern
from regard.tracing.watching.huggingface import OTHER_WITH_EAGER, attention_forward

SIZES = {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 3, "num_attention_heads": 6}
GROUPED = SIZES | {"num_key_value_heads": 2, "max_position_embeddings": 64}
PLAIN = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TWO = PLAIN | {
    "vocab_size": 61, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 6, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_position_embeddings": 64,
    "decoder_start_token_id": 0,
}  # fmt: skip

ENCODERS = {
    "bert": transformers.BertConfig(**SIZES, **PLAIN),
    "roberta": transformers.RobertaConfig(**SIZES, **PLAIN),
    "distilbert": transformers.DistilBertConfig(vocab_size=61, dim=24, hidden_dim=37, n_layers=2, n_heads=4),
}
DECODERS = {
    "gpt2": transformers.GPT2Config(vocab_size=61, n_positions=64, n_embd=24, n_layer=3, n_head=6, **PLAIN),
    "llama": transformers.LlamaConfig(**GROUPED, **PLAIN),
    "mistral with a window": transformers.MistralConfig(**GROUPED, **PLAIN, sliding_window=3),
    "gemma 2 with a softcap": transformers.Gemma2Config(**GROUPED, **PLAIN, head_dim=4, attn_logit_softcapping=2.0),
    "gpt-oss with sinks": transformers.GptOssConfig(
        **GROUPED | {"intermediate_size": 40}, **PLAIN, head_dim=4, sliding_window=3, num_local_experts=4
    ),
    "deepseek 3.2, whose indexer chooses four keys": transformers.DeepseekV32Config(
        vocab_size=61, max_position_embeddings=64, hidden_size=24, intermediate_size=37, moe_intermediate_size=16,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16,
        qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, index_topk=4, index_n_heads=2, index_head_dim=16,
        n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, first_k_dense_replace=1, **PLAIN,
    ),
}  # fmt: skip
TRANSLATORS = {
    "marian": transformers.MarianConfig(**TWO),
    "bart": transformers.BartConfig(**TWO),
    "t5 with a position bias": transformers.T5Config(
        vocab_size=61, d_model=24, d_kv=4, d_ff=37, num_layers=2, num_heads=6, decoder_start_token_id=0, **PLAIN
    ),
}


def pair(kind, config):
    """Return a random model with eager attention, and a copy of it whose attention regard computes."""
    torch.manual_seed(0)
    config = copy.deepcopy(config)
    config._attn_implementation = "eager"
    eager = kind.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in eager.named_parameters():
            if parameter.ndim > 1 or name.endswith("sinks"):
                parameter.normal_(std=0.4)
    return eager, regard.install(copy.deepcopy(eager))


def texts(padded_on, n=11):
    """Return three texts of different lengths, padded to the same length on the given side."""
    ids = torch.randint(3, 61, (3, n), generator=torch.Generator().manual_seed(1))
    position = torch.arange(n) if padded_on == "right" else torch.arange(n).flip(0)
    seen = (position < torch.tensor([n, 5, 8])[:, None]).long()
    return {"input_ids": ids * seen, "attention_mask": seen}


def assert_patterns_equal(patterns, weights, queries_seen, atol=2e-6):
    """Fail unless each layer's pattern is lazy and equals the eager weights for queries that are not padding."""
    assert len(patterns) == len(weights) > 0
    for pattern, expected in zip(patterns, weights, strict=True):
        assert isinstance(pattern, Pattern)
        assert pattern.shape == expected.shape
        live = queries_seen[:, None, :, None].bool()
        assert_close(pattern.dense() * live, expected * live, atol=atol, rtol=1e-4)
    sharpest = max(float(expected.detach().max()) for expected in weights)
    assert sharpest > 0.5, "the test's attention is too flat to show a mistake"


CASES = [
    *((AutoModel, ENCODERS[name], "right", 2e-5) for name in ENCODERS),
    *((AutoModelForCausalLM, DECODERS[name], side, 5e-5) for name in DECODERS for side in ("left", "right")),
]


@pytest.mark.parametrize(
    ("kind", "config", "padded_on", "atol"), CASES, ids=lambda part: getattr(part, "model_type", None)
)
def test_patterns_and_outputs_are_those_of_eager_attention(kind, config, padded_on, atol):
    eager, seen = pair(kind, config)
    inputs = texts(padded_on)
    expected, outputs = eager(**inputs, output_attentions=True), seen(**inputs, output_attentions=True)
    live = inputs["attention_mask"]
    assert_patterns_equal(outputs.attentions, expected.attentions, live)
    assert_close(outputs[0] * live[..., None], expected[0] * live[..., None], atol=atol, rtol=1e-4)
    if config.model_type == "deepseek_v32":
        assert int((outputs.attentions[0].dense()[0, 0, -1] > 0).sum()) <= 4


@pytest.mark.parametrize("name", ["block_indices", "sinks"])
def test_what_changes_attention_and_cannot_be_followed_is_refused(normal, name):
    x, extra = normal(1, 2, 5, 4), {name: normal(1, 2, 5, 1)}
    assert refusal(InputError, attention_forward, torch.nn.Linear(1, 1), x, x, x, None, **extra) == (
        f"Linear attends by {name}, which regard cannot follow exactly; "
        "run the model with set_attn_implementation('eager')."
    )


def test_a_paged_cache_is_refused():
    model = regard.install(AutoModelForCausalLM.from_config(DECODERS["llama"]))
    assert refusal(InputError, model, texts("right")["input_ids"], cache=object()) == (
        "regard cannot record attention over a paged cache (continuous batching); run the model with its own cache, or "
        "call regard.uninstall(model)."
    )


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_decoders_without_padding_run_the_kernels_own_causal_mask(name):
    eager, seen = pair(AutoModelForCausalLM, DECODERS[name])
    ids = texts("right")["input_ids"][:1]
    outputs = seen(ids, output_attentions=True)
    assert all(pattern.mask == regard.Causal(offset=0) for pattern in outputs.attentions)
    assert_patterns_equal(outputs.attentions, eager(ids, output_attentions=True).attentions, torch.ones_like(ids))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_patterns_of_generation_with_a_cache_are_those_of_eager_attention(name):
    eager, seen = pair(AutoModelForCausalLM, DECODERS[name])
    inputs = texts("left")
    how = {"max_new_tokens": 4, "do_sample": False, "output_attentions": True, "return_dict_in_generate": True}
    expected, outputs = eager.generate(**inputs, **how), seen.generate(**inputs, **how)
    assert torch.equal(outputs.sequences, expected.sequences)
    live = inputs["attention_mask"]
    for step, (patterns, weights) in enumerate(zip(outputs.attentions, expected.attentions, strict=True)):
        assert_patterns_equal(patterns, weights, live if step == 0 else live[:, -1:])


@pytest.mark.parametrize("name", TRANSLATORS)
def test_all_three_kinds_of_an_encoder_decoder_are_those_of_eager_attention(name):
    eager, seen = pair(AutoModelForSeq2SeqLM, TRANSLATORS[name])
    inputs = texts("right") | {"decoder_input_ids": texts("right", n=7)["input_ids"][:, :5].clamp_min(3)}
    expected, outputs = eager(**inputs, output_attentions=True), seen(**inputs, output_attentions=True)
    written = torch.ones(3, 5)
    assert_patterns_equal(outputs.encoder_attentions, expected.encoder_attentions, inputs["attention_mask"])
    assert_patterns_equal(outputs.decoder_attentions, expected.decoder_attentions, written)
    assert_patterns_equal(outputs.cross_attentions, expected.cross_attentions, written)
    assert_close(outputs.logits, expected.logits, atol=5e-5, rtol=1e-4)


EAGER_ONLY = {
    "nllb-moe": transformers.NllbMoeConfig(**TWO, num_experts=2, expert_capacity=64),
    "pegasus-x": transformers.PegasusXConfig(**TWO),
    "bigbird-pegasus": transformers.BigBirdPegasusConfig(**TWO),
}
"""Decoders without an attribute `is_causal`: only the mask keeps queries from later keys."""


@pytest.mark.filterwarnings("ignore:encoder.layers.0.self_attn .* computes no attention that passes:UserWarning")
@pytest.mark.parametrize("name", EAGER_ONLY)
def test_models_that_are_written_for_eager_attention_see_no_future(name):
    eager, seen = pair(AutoModel, EAGER_ONLY[name])
    ids = texts("right")["input_ids"][:1]
    inputs = {"input_ids": ids, "decoder_input_ids": ids[:, :7].clamp_min(3)}
    expected, outputs = eager(**inputs, output_attentions=True), seen(**inputs, output_attentions=True)
    assert_patterns_equal(outputs.decoder_attentions, expected.decoder_attentions, torch.ones(1, 7))
    assert not outputs.decoder_attentions[0].dense().triu(1).any()
    assert_close(outputs.last_hidden_state, expected.last_hidden_state, atol=5e-5, rtol=1e-4)


def test_an_encoder_that_is_written_for_eager_attention_sees_everything():
    eager, seen = pair(AutoModel, transformers.SplinterConfig(**SIZES, **PLAIN))
    inputs = {"input_ids": texts("right")["input_ids"][:1]}
    expected, outputs = eager(**inputs, output_attentions=True), seen(**inputs, output_attentions=True)
    assert_patterns_equal(outputs.attentions, expected.attentions, torch.ones(1, 11))
    assert outputs.attentions[0].dense().triu(1).any()


def compressing():
    """Return a config of DeepSeek-V4, whose layers also attend to compressed keys and extend the mask for them."""
    kinds = ["compressed_sparse_attention", "heavily_compressed_attention"]
    return transformers.DeepseekV4Config(
        vocab_size=30_522, hidden_size=32, num_hidden_layers=2, moe_intermediate_size=16, num_attention_heads=4,
        num_key_value_heads=1, head_dim=8, q_lora_rank=16, sliding_window=8, o_groups=2, o_lora_rank=8, index_n_heads=2,
        index_head_dim=8, index_topk=2, hc_mult=2, n_routed_experts=2, num_experts_per_tok=1, **PLAIN,
        mlp_layer_types=["moe", "moe"], max_position_embeddings=64, layer_types=kinds, num_nextn_predict_layers=0,
        compress_rates=dict.fromkeys(kinds, 4),
    )  # fmt: skip


@pytest.mark.parametrize("padded_on", [None, "left"])
def test_a_model_that_adds_to_its_mask_gets_numbers(padded_on):
    eager, seen = pair(AutoModel, compressing())
    inputs = {"input_ids": texts("left")["input_ids"][:1]} if padded_on is None else texts(padded_on)
    expected, outputs = eager(**inputs), seen(**inputs)
    live = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"]))[..., None].bool()
    assert_close(outputs[0] * live, expected[0] * live, atol=5e-5, rtol=1e-4)


def test_keys_that_are_no_tokens_are_refused(minilm):
    _, seen = pair(AutoModel, compressing())
    text = "the dog saw the cat and the bird flew far away"
    assert refusal(InputError, regard.trace, seen, text, tokenizer=minilm.tokenizer) == (
        "DeepseekV4Model has 13 queries and 16 keys in decoder layer 0, and 13 and 13 tokens; a trace needs a token "
        "for each query and key. regard.install(model) gives the patterns without tokens."
    )


def test_moving_a_model_leaves_its_patterns_as_they_were():
    _, seen = pair(AutoModelForCausalLM, DECODERS["gpt-oss with sinks"])
    patterns = seen(**texts("right"), output_attentions=True).attentions
    before = [pattern.dense().detach().clone() for pattern in patterns]
    seen.to(torch.bfloat16)
    for pattern, expected in zip(patterns, before, strict=True):
        assert torch.equal(pattern.dense(), expected)


def test_gradients_reach_the_parameters_as_with_eager():
    eager, seen = pair(AutoModelForCausalLM, DECODERS["llama"])
    inputs = texts("right")
    for model in (eager, seen):
        model(**inputs).logits[inputs["attention_mask"].bool()].square().mean().backward()
    for (name, expected), parameter in zip(eager.named_parameters(), seen.parameters(), strict=True):
        assert_close(parameter.grad, expected.grad, atol=1e-4, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}")


def test_without_output_attentions_nothing_is_kept():
    _, seen = pair(AutoModel, ENCODERS["bert"])
    assert seen(**texts("right")).attentions is None


def test_install_can_be_undone():
    eager, seen = pair(AutoModel, ENCODERS["bert"])
    seen.set_attn_implementation("eager")
    inputs = texts("right")
    outputs = seen(**inputs, output_attentions=True)
    assert torch.equal(outputs.attentions[0], eager(**inputs, output_attentions=True).attentions[0])


def test_what_is_no_model_is_refused(without_type_checks):
    for given, name in ((torch.nn.Linear(2, 2), "a Linear"), ("gpt2", "a str")):
        assert refusal(TypeError, regard.install, given) == f"install takes a Hugging Face PreTrainedModel; got {name}."


def test_a_model_off_the_interface_is_refused_in_words():
    config = transformers.BloomConfig(vocab_size=61, hidden_size=24, n_layer=2, n_head=6)
    model = transformers.BloomForCausalLM(config)
    assert refusal(ValueError, regard.install, model) == (
        "BloomForCausalLM, BloomModel computes its attention without Hugging Face's attention interface, so its "
        "patterns do not come with its outputs; record them with regard.watching(model)."
    )


def test_uninstall_gives_the_model_back_as_it_was():
    model = AutoModel.from_config(TRANSLATORS["t5 with a position bias"])
    configs = [getattr(module, "config", None) for module in model.modules()]
    implementations = [part.config._attn_implementation for part in (model, model.encoder, model.decoder)]
    regard.install(regard.install(model))
    assert model.config is not configs[0]
    assert model.encoder.config._attn_implementation == "regard"
    regard.uninstall(model)
    assert [id(getattr(module, "config", None)) for module in model.modules()] == list(map(id, configs))
    assert [part.config._attn_implementation for part in (model, model.encoder, model.decoder)] == implementations
    assert regard.uninstall(model) is model


def test_no_hook_of_install_stays_after_uninstall():
    model = AutoModel.from_config(ENCODERS["bert"])

    def n_hooks():
        return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())

    before = n_hooks()
    regard.install(model)
    n_installed = n_hooks()
    regard.install(model)
    assert n_hooks() == n_installed > before
    regard.uninstall(model)
    assert n_hooks() == before


def test_another_model_of_the_same_config_stays_as_it_is():
    config = copy.deepcopy(ENCODERS["bert"])
    config._attn_implementation = "sdpa"
    first, second = transformers.BertModel(config), transformers.BertModel(config)
    regard.install(first)
    assert (first.config._attn_implementation, config._attn_implementation) == ("regard", "sdpa")
    assert second.config._attn_implementation == "sdpa"
    assert first.encoder.layer[0].attention.self.config is first.config


def test_a_copy_of_an_installed_model_gives_patterns():
    _, seen = pair(AutoModel, ENCODERS["bert"])
    inputs = texts("right")
    outputs = copy.deepcopy(seen)(**inputs, output_attentions=True)
    assert all(isinstance(pattern, Pattern) for pattern in outputs.attentions)
    assert torch.equal(outputs[0], seen(**inputs)[0])


def test_output_attentions_in_the_config_gives_patterns(tmp_path):
    _, seen = pair(AutoModel, ENCODERS["bert"])
    seen.config.output_attentions = True
    outputs = seen(**texts("right"))
    assert all(isinstance(pattern, Pattern) for pattern in outputs.attentions)
    assert type(seen.config).__name__ == "BertConfig"
    seen.save_pretrained(tmp_path)
    assert AutoModel.from_pretrained(tmp_path, output_attentions=False).config._attn_implementation == "sdpa"


class Around(torch.nn.Module):
    """A module that wraps a model, like PeftModel."""

    def __init__(self, model):
        super().__init__()
        self.base_model = model

    def forward(self, **inputs):
        return self.base_model(**inputs)


def test_a_model_inside_another_module_gives_its_patterns():
    eager, seen = pair(AutoModel, ENCODERS["bert"])
    around = regard.install(Around(regard.uninstall(seen)))
    outputs = around(**texts("right"), output_attentions=True)
    expected = eager(**texts("right"), output_attentions=True)
    assert_patterns_equal(outputs.attentions, expected.attentions, texts("right")["attention_mask"])
    regard.uninstall(around)
    assert seen.config._attn_implementation == "eager"


def test_offloaded_models_keep_patterns():
    from accelerate import cpu_offload

    eager, seen = pair(AutoModelForCausalLM, DECODERS["gpt-oss with sinks"])
    cpu_offload(seen, execution_device="cpu")
    outputs = seen(**texts("right"), output_attentions=True)
    expected = eager(**texts("right"), output_attentions=True)
    assert_patterns_equal(outputs.attentions, expected.attentions, texts("right")["attention_mask"])


def test_attention_that_does_not_pass_is_told_once_for_each_class():
    _, seen = pair(AutoModel, ENCODERS["bert"])
    seen = regard.uninstall(seen)

    class Extra(torch.nn.Module):
        def __init__(self, dense):
            super().__init__()
            self.dense, self.own = dense, torch.nn.MultiheadAttention(24, 2, batch_first=True)

        def forward(self, x):
            return self.dense(self.own(x, x, x, need_weights=False)[0])

    for layer in seen.encoder.layer:
        layer.intermediate.dense = Extra(layer.intermediate.dense)
    regard.install(seen)
    message = (
        r"^encoder\.layer\.0\.intermediate\.dense\.own \(MultiheadAttention\) computes no attention that passes "
        r"through regard, so it has no pattern in the outputs; regard\.watching\(model\) records what it computes\.$"
    )
    with pytest.warns(UserWarning, match=message) as told:
        seen(**texts("right"))
    assert len(told) == 1
    seen(**texts("right"))


def test_a_type_whose_eager_outputs_differ_is_named():
    table = (Path(__file__).parents[3] / "docs/model-types.md").read_text()
    rows = [line.split(" | ") for line in table.splitlines() if "something else with eager" in line]
    assert {row[0].removeprefix("| ") for row in rows if row[2] != "refused"} == OTHER_WITH_EAGER
    config = transformers.Aimv2TextConfig(**SIZES, max_position_embeddings=64, eos_token_id=2)
    message = (
        r"^transformers computes something else for Aimv2TextModel with attn_implementation='eager' than by default; "
        r"regard follows the default\.$"
    )
    model = transformers.Aimv2TextModel(config).eval()
    ids, unpadded = torch.arange(3, 20)[None], torch.ones(1, 17, dtype=torch.int64)
    expected = model(ids, attention_mask=unpadded)
    with pytest.warns(UserWarning, match=message):
        regard.install(model)
    assert_close(model(ids, attention_mask=unpadded).last_hidden_state, expected.last_hidden_state)


def test_outputs_without_patterns_are_named_once():
    vision = {"depth": 2, "hidden_size": 32, "out_hidden_size": 48, "num_heads": 4, "intermediate_size": 64}
    config = transformers.models.qwen2_5_vl.configuration_qwen2_5_vl.Qwen2_5_VLVisionConfig(**vision)
    tower = regard.install(Qwen2_5_VisionTransformerPretrainedModel(config))
    pixels, grid = torch.randn(16, 3 * 2 * 14 * 14), torch.tensor([[1, 4, 4]])
    message = (
        r"^outputs\.attentions of Qwen2_5_VisionTransformerPretrainedModel has tensors of the model's own, and no "
        r"patterns; regard\.watching\(model\) records its attention\.$"
    )
    with pytest.warns(UserWarning, match=message) as told:
        tower(pixels, grid, output_attentions=True)
    assert len(told) == 1
    tower(pixels, grid, output_attentions=True)
