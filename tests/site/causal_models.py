"""Small causal language models with random parameters, and tokenizers of GPT-2's kind that are trained here."""

from pathlib import Path

import torch
from site_texts import TEXTS
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from regard.site.byte_pairs import LLAMA3_PATTERN

MOST = 64
"""The largest number of tokens that the models read."""

END = "<|endoftext|>"

FINAL_NORMS = "transformer.ln_f.weight", "model.norm.weight"
"""The names of the factors by which all logits grow."""

GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
"""The splitter of GPT-2."""

LLAMA = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
"""The splitter of Llama 3, after one that splits digits off, as in SmolLM's tokenizer."""


def byte_tokenizer(splitter: pre_tokenizers.PreTokenizer, begins: bool = False) -> PreTrainedTokenizerFast:
    """Train a byte-level tokenizer on a few texts.

    Pairs are counted across spaces and punctuation, so that a text which is split at another place has other tokens.

    Args:
        splitter: how the tokenizer splits a text.
        begins: whether it begins every text with a special token.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1200, special_tokens=[END], initial_alphabet=alphabet, max_token_length=6, show_progress=False
    )
    parts = [text[i : i + n] for text in TEXTS for n in (2, 3, 4) for i in range(len(text))]
    tokenizer.train_from_iterator(parts, trainer)
    tokenizer.pre_tokenizer = splitter
    if begins:
        tokenizer.post_processor = processors.TemplateProcessing(f"{END} $0", special_tokens=[(END, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END)


def write_gpt2(folder: Path) -> Path:
    """Write a GPT-2 whose second layer scales scores by its number, and a tokenizer, to a folder."""
    tokenizer = byte_tokenizer(GPT2)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_layer=2,
        n_head=3,
        n_embd=24,
        n_positions=MOST,
        scale_attn_by_inverse_layer_idx=True,
    )
    return write(GPT2LMHeadModel(config), tokenizer, folder)


def write_llama(folder: Path) -> Path:
    """Write a Llama of 4 heads, which share 2 heads of keys and values, and a tokenizer, to a folder."""
    tokenizer = byte_tokenizer(LLAMA, begins=True)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=32,
        intermediate_size=40,
        max_position_embeddings=MOST,
    )
    return write(LlamaForCausalLM(config), tokenizer, folder)


def write(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """Write a model with larger parameters, so that its heads and its predictions prefer some tokens clearly."""
    model.generation_config.eos_token_id = 0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(9 if parameter.ndim > 1 else 20 if name in FINAL_NORMS else 1)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
