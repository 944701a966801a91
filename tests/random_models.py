"""Small random models, and their weights by their own eager attention, for tests of traces."""

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

TEXT = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 37, "vocab_size": 30600,
}  # fmt: skip
VISION = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}


def sharp(model, std=0.3):
    """Give a model random parameters, large enough for attention that differs clearly between keys."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=std)
            elif "newline" in name:
                parameter.normal_()
    return model.eval()


def t5(std=0.3, **changes):
    """A random T5 of 2 layers with 6 heads, by default with MiniLM's vocabulary."""
    sizes = {"vocab_size": 30522, "d_model": 24, "d_kv": 4, "d_ff": 37, "num_layers": 2, "num_heads": 6}
    return sharp(T5ForConditionalGeneration(T5Config(**sizes | {"decoder_start_token_id": 0} | changes)), std)


def gpt2(std=0.2, **changes):
    """A random GPT-2 of 2 layers with 4 heads, by default with MiniLM's vocabulary."""
    sizes = {"vocab_size": 30522, "n_layer": 2, "n_head": 4, "n_embd": 48, "bos_token_id": 101, "eos_token_id": 102}
    return sharp(GPT2LMHeadModel(GPT2Config(**sizes | changes)), std)


def eager_outputs(model, inputs):
    """The outputs of a model, with the attention weights that its own eager attention computes."""
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    model.set_attn_implementation(implementation)
    return outputs


def eager_softmaxes(model, inputs):
    """The weights of every call of the attention's softmax in eager attention, in the order of the calls."""
    model, found, softmax = copy.deepcopy(model), [], torch.nn.functional.softmax
    model.set_attn_implementation("eager")

    def noted(*args, **options):
        found.append(softmax(*args, **options))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch.nn.functional, "softmax", noted)
        model(**inputs)
    return found


def assert_weights(patterns, weights, **tolerance):
    """Fail unless the pattern of each layer has the weights that the model's own attention computed."""
    for pattern, expected in zip(patterns.values(), weights, strict=True):
        assert_close(pattern.dense(), expected, **tolerance)


def block_diagonal(weights):
    """The weights [items heads tokens tokens] as one matrix for each head, with zeros between items."""
    return torch.stack([torch.block_diag(*heads) for heads in weights.transpose(0, 1)])[None]


def without_vision_attention(model):
    """A copy of the model in which a patch does not learn of other patches before the text reads it."""
    model = copy.deepcopy(model)
    for name, module in model.named_modules():
        if "vision" in name and name.endswith(("out_proj", "projection_layer", "o_proj")):
            for parameter in module.parameters():
                torch.nn.init.zeros_(parameter)
    return model


def tokenizer_with(minilm, *tokens):
    tokenizer = copy.deepcopy(minilm.tokenizer)
    tokenizer.init_kwargs.pop("max_length")  # 128 tokens, less than two pictures have
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.add_special_tokens({"additional_special_tokens": list(tokens)})
    return tokenizer


def random_picture(height, width, seed=0):
    numbers = np.random.default_rng(seed).integers(0, 200, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(numbers)
