"""Small models in float64, and their outputs if a head has the output of another run, by hooks on eager attention."""

import copy

import torch
from random_models import sharp
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
)

import regard

CLEAN, CORRUPTED = "the snake has a venom", "the horse has a mane"
TARGET, OTHER_TARGET = "it has a venom", "it has a mane"
SIZES = {"vocab_size": 30522, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}


def gpt2(n_head=4):
    return sharp(GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=24, n_head=n_head, n_positions=32, **SIZES))).double()


def bert():
    sizes = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 37}
    return sharp(BertModel(BertConfig(**SIZES | sizes))).double()


def llama():
    sizes = {"hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 2}
    return sharp(LlamaForCausalLM(LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **SIZES | sizes))).double()


def marian(decoder_heads=4):
    sizes = {"d_model": 24, "decoder_start_token_id": 0, "max_position_embeddings": 32}
    for part in ("encoder", "decoder"):
        n_heads = 4 if part == "encoder" else decoder_heads
        sizes |= {f"{part}_layers": 2, f"{part}_attention_heads": n_heads, f"{part}_ffn_dim": 37}
    return sharp(MarianMTModel(MarianConfig(**SIZES | sizes))).double()


def output_of(model, tokenizer, text, target):
    """What the model returns for a text and, if it is an encoder-decoder, a target."""
    inputs = {"input_ids": tokenizer(text, return_tensors="pt")["input_ids"]}
    if model.config.is_encoder_decoder:
        ids = tokenizer(target, return_tensors="pt")["input_ids"]
        inputs["decoder_input_ids"] = torch.cat([ids.new_zeros(1, 1), ids[:, :-1]], dim=1)
    with torch.no_grad():
        return model(**inputs)[0]


def by_hooks(model, tokenizer, head, path, pairs, clean=CLEAN):
    """The output of the eager model for CORRUPTED, with a part of a projection's input from the run on `clean`."""
    model, kept = copy.deepcopy(model), []
    model.set_attn_implementation("eager")
    projection = model.get_submodule(path)
    hook = projection.register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0].clone()))
    output_of(model, tokenizer, clean, TARGET)
    hook.remove()

    def replaced(module, inputs):
        vectors, width = inputs[0].clone(), 4 if "EncDec" in path else 6
        of_head = slice(int(head[-1]) * width, (int(head[-1]) + 1) * width)
        for here, there in pairs or [(i, i) for i in range(vectors.shape[1])]:
            vectors[:, here, of_head] = kept[0][:, there, of_head]
        return (vectors,)

    projection.register_forward_pre_hook(replaced)
    return output_of(model, tokenizer, CORRUPTED, OTHER_TARGET)


def traced(model, tokenizer, text, target, *changes, **arguments):
    target = target if model.config.is_encoder_decoder else None
    return regard.trace(model, text, target=target, tokenizer=tokenizer, changes=changes, **arguments)
