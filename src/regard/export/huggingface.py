"""Exporting a Transformer to Hugging Face's transformers, to be loaded by AutoModelForSeq2SeqLM and AutoTokenizer.

    post-norm, sinusoidal positions               becomes a Marian model: see transformer/marian.py
    pre-norm, sinusoidal or learned positions     becomes a Pegasus model: like Marian, but pre-norm, with a final norm

The tokenizer is a MarianTokenizer in both cases. It loads the SentencePiece vocabularies unchanged, and tables with the
ids of their pieces. Pegasus needs the same vocabulary size for source and target, so the smaller vocabulary is padded
with unused tokens, whose logits are -∞.
"""

import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from regard.errors import InputError, import_extra
from regard.export.ungrouped import ungroup
from regard.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from regard.tracing.model_loading import quiet_transformers
from regard.transformer.config import TransformerConfig
from regard.transformer.feed_forward import ACTIVATIONS
from regard.transformer.marian import hugging_face_settings, marian_order, parameter_names, reorder, to_marian
from regard.transformer.model import Transformer
from regard.translation.translator import Translator

if TYPE_CHECKING:
    from transformers import PegasusForConditionalGeneration, PreTrainedModel

BEAM = 5
"""The default beam size of the exported model, as in `regard translate`."""


def write(translator: Translator, folder: Path) -> None:
    transformers = import_extra("transformers", "huggingface,translation")
    model = convert(checked_model(translator.model))
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=BOS,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        suppress_tokens=[PAD, BOS],  # regard's own searches never choose these pieces
        max_length=translator.model.config.max_tokens,
        num_beams=BEAM,
    )
    with quiet_transformers(progress=False), warnings.catch_warnings(action="ignore"):
        model.save_pretrained(folder)
    write_tokenizer(translator, folder)


def checked_model(model: object) -> Transformer:
    if not isinstance(model, Transformer):
        raise InputError(
            f"transformers has no architecture for a {type(model).__name__} translator; export it with --to onnx."
        )
    reasons = list(unsupported_reasons(model.config))
    if reasons:
        raise InputError(
            f"transformers has no architecture for this translator: {'; '.join(reasons)}. "
            "Export it with --to ctranslate2 or --to onnx."
        )
    return model


def unsupported_reasons(config: TransformerConfig) -> Iterator[str]:
    if config.positions == "rotary":
        yield "positions='rotary', which neither Marian nor Pegasus has"
    if config.positions == "learned" and config.norm == "post":
        yield "positions='learned' with norm='post', which Marian does not have (Pegasus has norm='pre')"
    if ACTIVATIONS[config.activation].hugging_face is None:
        yield f"activation={config.activation!r}, while Marian and Pegasus have no gated activations"


def convert(model: Transformer) -> "PreTrainedModel":
    model = ungroup(model)  # in Marian and Pegasus, no query heads share a key head
    return (to_marian(model) if model.config.norm == "post" else to_pegasus(model)).eval()


def to_pegasus(model: Transformer) -> "PegasusForConditionalGeneration":
    """Convert an ungrouped pre-norm Transformer to a Pegasus model that returns the same logits."""
    transformers = import_extra("transformers", "huggingface,translation")
    config, state = model.config, model.state_dict()
    size = max(config.n_source_tokens, config.n_target_tokens)
    pegasus = transformers.PegasusForConditionalGeneration(
        transformers.PegasusConfig(
            vocab_size=size, tie_word_embeddings=config.share == "all", **hugging_face_settings(config, PAD, BOS, EOS)
        )
    )
    is_sinusoidal = config.positions == "sinusoidal"
    # A position vector of Pegasus, as of Marian, has all sines before all cosines; in regard, sines and cosines
    # alternate. `marian_order` goes from Marian's order to regard's, and argsort gives its inverse.
    order = marian_order(config.d_model).argsort() if is_sinusoidal else torch.arange(config.d_model)
    parameters = {}
    for our_name, name, vector_axis in parameter_names(config):  # vector_axis: the axis of size d_model, or None
        parameters[name] = reorder(state[our_name], vector_axis, order)
    bias = parameters["final_logits_bias"]
    parameters["final_logits_bias"] = F.pad(bias, (0, size - len(bias)), value=-math.inf)[None]
    for name in ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"):
        parameters[name] = F.pad(parameters[name], (0, 0, 0, size - len(parameters[name])))  # rows of zeros at the end
    parameters["model.shared.weight"] = parameters["lm_head.weight"]
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        # sinusoidal position vectors are no parameters in regard: Pegasus keeps its own
        parameters.setdefault(name, pegasus.state_dict()[name])
    pegasus.load_state_dict(parameters)
    return pegasus


def write_tokenizer(translator: Translator, folder: Path) -> None:
    source, target = translator.source_vocabulary, translator.target_vocabulary
    source.save(folder / "source.spm")
    target.save(folder / "target.spm")
    write_json(folder / "vocab.json", id_of_each_piece(source))
    if source is not target:
        write_json(folder / "target_vocab.json", id_of_each_piece(target))
    pad, unknown, eos = target.pieces([PAD, UNK, EOS])
    config = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": source is not target,
        "model_max_length": translator.model.config.max_tokens,
        "clean_up_tokenization_spaces": False,
        "pad_token": pad,
        "unk_token": unknown,
        "eos_token": eos,
    }
    write_json(folder / "tokenizer_config.json", config)


def id_of_each_piece(vocabulary: Vocabulary) -> dict[str, int]:
    return {piece: token for token, piece in enumerate(vocabulary.pieces(range(len(vocabulary))))}


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


class LoadedExport:
    def __init__(self, folder: Path) -> None:
        transformers = import_extra("transformers", "huggingface,translation")
        with quiet_transformers(progress=False), warnings.catch_warnings(action="ignore"):
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()

    def translate(self, text: str, limit: int) -> tuple[list[int], str]:
        with quiet_transformers(progress=False), warnings.catch_warnings(action="ignore"):
            source = self.tokenizer(text, return_tensors="pt")
            # BOS counts in max_length, and is the first token of the result
            tokens = self.model.generate(**source, num_beams=1, do_sample=False, max_length=limit + 1)[0, 1:].tolist()
        tokens = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
        return tokens, self.tokenizer.decode(tokens, skip_special_tokens=True)

    @torch.inference_mode()
    def log_probability(self, text: str, tokens: list[int]) -> float:
        expected = torch.tensor([[*tokens, EOS]])
        source = self.tokenizer(text, return_tensors="pt")
        logits = self.model(**source, decoder_input_ids=torch.tensor([[BOS, *tokens]])).logits
        return logits.double().log_softmax(dim=-1).gather(2, expected[..., None]).sum().item()
