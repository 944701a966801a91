"""Tests of which encoders and causal language models a site runs, and of every refusal."""

from dataclasses import replace

import pytest
import torch
from causal_models import GPT2, byte_tokenizer
from refusals import refusal
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    MistralConfig,
    MistralForCausalLM,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
)

import regard
from regard import InputError
from regard.site import text_model as writing
from regard.site.text_model import check_supported, export_text_model
from regard.tracing.model_loading import LoadedModel, load

SIZES = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}
LOCAL = {"num_hidden_layers": 2} | {f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")}
ADVICE = (
    "; a site runs encoders of text and causal language models whose weights are a softmax of scaled dot products, "
    "such as MiniLM and GPT-2. regard explore shows other models."
)


class WithoutPositions(GPT2LMHeadModel):
    """A causal language model whose positions cannot be given."""

    @classmethod
    def small(cls, size: int) -> "WithoutPositions":
        return cls(GPT2Config(vocab_size=size, n_layer=1, n_head=2, n_embd=8))

    def forward(self, input_ids=None, attention_mask=None, logits_to_keep=0, **settings):
        return super().forward(input_ids, attention_mask=attention_mask, logits_to_keep=logits_to_keep, **settings)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            lambda size: GPT2Model(GPT2Config(vocab_size=size, n_layer=1, n_head=2, n_embd=8)),
            "GPT2Model cannot compute the logits of chosen tokens alone",
        ),
        (
            WithoutPositions.small,
            "WithoutPositions does not take the positions of tokens, so it cannot go on after tokens that it has read",
        ),
        (
            lambda size: BloomForCausalLM(BloomConfig(vocab_size=size, n_layer=1, n_head=2, hidden_size=8)),
            "BloomForCausalLM computes its attention without the attention interface of transformers",
        ),
        (
            lambda size: Gemma2ForCausalLM(Gemma2Config(vocab_size=size, head_dim=4, num_key_value_heads=1, **SIZES)),
            "Gemma2ForCausalLM changes its scores after their scaling",
        ),
        (
            lambda size: MistralForCausalLM(
                MistralConfig(vocab_size=size, sliding_window=3, num_key_value_heads=1, **SIZES)
            ),
            "MistralForCausalLM masks other keys than those after a query",
        ),
        (
            lambda size: ModernBertModel(ModernBertConfig(vocab_size=size, local_attention=2, **SIZES | LOCAL)),
            "ModernBertModel masks some keys",
        ),
        (
            lambda size: MPNetModel(MPNetConfig(vocab_size=size, **SIZES)),
            "MPNetModel computes its attention without the attention interface of transformers",
        ),
    ],
)  # fmt: skip
def test_other_models_are_refused(minilm: LoadedModel, model, reason):
    torch.manual_seed(0)
    loaded = LoadedModel(type(built := model(len(minilm.tokenizer)).eval()).__name__, built, minilm.tokenizer)
    trace = regard.trace(built, "It rains.", tokenizer=minilm.tokenizer)
    assert refusal(InputError, check_supported, loaded, trace) == reason + ADVICE


def test_a_model_of_several_kinds_of_attention_is_refused(minilm: LoadedModel):
    trace = regard.trace("MiniLM", "It rains.")
    both = replace(trace, attended=dict.fromkeys(("encoder", "cross"), trace.attended["encoder"]))
    assert refusal(InputError, check_supported, minilm, both) == f"MiniLM has encoder, cross attention{ADVICE}"


def test_a_model_that_a_browser_cannot_load_is_refused(small, monkeypatch):
    loaded = load(str(small))
    trace = regard.trace(loaded.model, "It rains.", tokenizer=loaded.tokenizer)
    check_supported(loaded, trace)
    monkeypatch.setattr(writing, "MOST_BYTES", 1_000_000)
    n_bytes = 4 * sum(parameter.numel() for parameter in loaded.model.parameters())
    assert refusal(InputError, check_supported, loaded, trace) == (
        f"small has {n_bytes / 1e9:.1f} GB of parameters in float32, more than the 2 GB that a browser loads{ADVICE}"
    )


def test_a_window_that_only_a_long_text_leaves_is_refused(tmp_path):
    tokenizer = byte_tokenizer(GPT2)
    sizes = {**SIZES, "hidden_size": 16, "num_key_value_heads": 1, "max_position_embeddings": 64}
    model = MistralForCausalLM(MistralConfig(vocab_size=len(tokenizer), sliding_window=40, **sizes)).eval()
    loaded = LoadedModel("windowed", model, tokenizer)
    check_supported(loaded, regard.trace(model, "It rains.", tokenizer=tokenizer))
    assert refusal(InputError, export_text_model, loaded, "It rains.", tmp_path) == (
        f"windowed masks other keys than those after a query{ADVICE}"
    )


def test_a_model_that_torch_cannot_export_is_refused(small, tmp_path, monkeypatch):
    loaded = load(str(small))

    def failing(*arguments):
        raise torch.onnx.OnnxExporterError("step 1 failed") from ValueError("the graph depends on data\n\nlong advice")

    monkeypatch.setattr(writing, "write_model", failing)
    monkeypatch.setattr(writing, "tokenizer_tables", lambda *arguments: {})
    assert refusal(InputError, export_text_model, loaded, "It rains.", tmp_path) == (
        "small cannot be written as an ONNX graph: the graph depends on data; regard explore shows this model."
    )
