"""Marian checkpoints of Hugging Face as a Transformer, and a Transformer as such a checkpoint.

Both compute the paper's model with post-norm and sinusoidal positions, and differ in one thing: Marian has all sines
before all cosines where the paper has them by turns. Which number of a vector is which is only a name, so the numbers
of every vector are reordered, in each parameter that reads or writes one; the logits are the same.

Source: Junczys-Dowmunt et al. 2018; the checkpoints of Tiedemann & Thottingal 2020 (OPUS-MT).
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import InputError, import_extra
from regard.transformer.config import Share, TransformerConfig
from regard.transformer.feed_forward import ACTIVATIONS, Activation
from regard.transformer.model import Transformer

if TYPE_CHECKING:
    from transformers import MarianConfig, MarianMTModel

HUGGING_FACE_ACTIVATIONS: Mapping[str, Activation] = {
    names.hugging_face: name for name, names in ACTIVATIONS.items() if names.hugging_face is not None
}
"""Our activations by their names in a Hugging Face config."""

READS = {".weight": 1, ".bias": None}
"""The axis of a layer's parameters along a token's vector, for a layer whose input is such a vector."""

WRITES = {".weight": 0, ".bias": 0}
"""The axis of a layer's parameters along a token's vector, for a layer whose output is such a vector, or a norm."""

Axes = Mapping[str, int | None]

BLOCK: Mapping[str, tuple[str, Axes]] = {
    "self_attention.to_query": ("self_attn.q_proj", READS),
    "self_attention.to_key": ("self_attn.k_proj", READS),
    "self_attention.to_value": ("self_attn.v_proj", READS),
    "self_attention.to_output": ("self_attn.out_proj", WRITES),
    "self_attention_norm": ("self_attn_layer_norm", WRITES),
    "feed_forward.widen": ("fc1", READS),
    "feed_forward.narrow": ("fc2", WRITES),
    "feed_forward_norm": ("final_layer_norm", WRITES),
}
"""The name of each layer of a block in Marian, and the axes of its parameters."""

CROSS: Mapping[str, tuple[str, Axes]] = {
    "cross_attention.to_query": ("encoder_attn.q_proj", READS),
    "cross_attention.to_key": ("encoder_attn.k_proj", READS),
    "cross_attention.to_value": ("encoder_attn.v_proj", READS),
    "cross_attention.to_output": ("encoder_attn.out_proj", WRITES),
    "cross_attention_norm": ("encoder_attn_layer_norm", WRITES),
}
"""The names of the layers that only a decoder's block has."""


def from_marian(model: "MarianMTModel | str | Path") -> Transformer:
    """Return a Transformer that gives the same logits as a Marian model.

    The decoder's first token is the checkpoint's own decoder_start_token_id (its padding, as a rule), not our BOS.
    Settings that only training uses (activation_dropout, layerdrop) are not copied.

    Args:
        model: a MarianMTModel, or a folder that one was saved in.

    Raises:
        InputError: the folder holds no Marian model, or transformers is not installed.
        ValueError: a model that differs from a Transformer; the message says where.
    """
    if not isinstance(model, str | Path):
        return copy_from_marian(model)
    transformers = import_extra("transformers", "huggingface")
    if not (Path(model) / "config.json").is_file():
        raise InputError(f"{model} is no folder with a config.json; give one that a Marian model was saved in.")
    kind = transformers.AutoConfig.from_pretrained(model).model_type
    if kind != "marian":
        raise InputError(f"{model} holds a model of type {kind!r}; only 'marian' can become a Transformer.")
    return copy_from_marian(transformers.MarianMTModel.from_pretrained(model))


def to_marian(model: Transformer, *, pad: int = 0, bos: int = 2, eos: int = 3) -> "MarianMTModel":
    """Return a MarianMTModel that gives the same logits as a Transformer.

    Args:
        pad: id of padding.
        bos: id that a target starts with.
        eos: id that a text ends with.

    Raises:
        InputError: a Transformer that Marian cannot express, and why; or transformers is not installed.
    """
    config, reasons = model.config, list(unsupported_reasons(model.config))
    if reasons:
        raise InputError(f"this Transformer cannot become a Marian model: {'; '.join(reasons)}.")
    transformers = import_extra("transformers", "huggingface")
    n_layers = config.n_layers
    theirs = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=config.n_source_tokens,
            decoder_vocab_size=config.n_target_tokens,
            d_model=config.d_model,
            encoder_layers=n_layers,
            decoder_layers=n_layers if config.n_decoder_layers is None else config.n_decoder_layers,
            **{f"{side}_attention_heads": config.n_heads for side in ("encoder", "decoder")},
            **{f"{side}_ffn_dim": config.d_ff for side in ("encoder", "decoder")},
            activation_function=ACTIVATIONS[config.activation].hugging_face,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            max_position_embeddings=config.max_tokens,
            scale_embedding=True,
            share_encoder_decoder_embeddings=config.share == "all",
            tie_word_embeddings=config.share != "none",
            **{"pad_token_id": pad, "bos_token_id": bos, "eos_token_id": eos},
            **{"decoder_start_token_id": bos, "forced_eos_token_id": None},
        )
    ).to(model.decoder.to_logits.weight)
    order, given = marian_order(config.d_model).argsort(), model.state_dict()
    parameters = {name: reorder(given[ours], axis, order) for ours, name, axis in pairs(config)}
    parameters["final_logits_bias"] = parameters["final_logits_bias"][None]
    for name, parameter in theirs.state_dict().items():
        parameters.setdefault(name, parameter)  # the waves, and a shared embedding under its other name
    if config.share == "all":
        parameters["model.shared.weight"] = parameters["lm_head.weight"]
    theirs.load_state_dict(parameters)
    return theirs.train(model.training)


def copy_from_marian(model: "MarianMTModel") -> Transformer:
    """Return a Transformer with a Marian model's sizes and parameters."""
    theirs, given = model.config, dict(model.state_dict())
    config = config_from_marian(theirs, shared_matrices(model))
    if not theirs.scale_embedding:  # ours are scaled by √d_model, so that these must be as much smaller
        for side in ("encoder", "decoder"):
            name = f"model.{side}.embed_tokens.weight"
            given[name] = given[name] / math.sqrt(theirs.d_model)
    given["final_logits_bias"] = given["final_logits_bias"][0]
    order = marian_order(theirs.d_model)
    copy = Transformer(config).to(model.lm_head.weight)
    copy.load_state_dict({ours: reorder(given[name], axis, order) for ours, name, axis in pairs(config)})
    return copy.train(model.training)


def config_from_marian(theirs: "MarianConfig", share: Share) -> TransformerConfig:
    """Return the sizes of a Marian model as a config."""
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = (getattr(theirs, f"{side}_{name}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            raise ValueError(
                f"this Marian model has encoder_{name}={encoder} and decoder_{name}={decoder}; a Transformer has the "
                "same on both sides."
            )
    if theirs.activation_function not in HUGGING_FACE_ACTIVATIONS:
        raise ValueError(
            f"this Marian model has activation_function={theirs.activation_function!r}; a Transformer takes over "
            f"{', '.join(HUGGING_FACE_ACTIVATIONS)}."
        )
    return TransformerConfig(
        n_source_tokens=theirs.vocab_size,
        n_target_tokens=theirs.decoder_vocab_size,
        d_model=theirs.d_model,
        n_heads=theirs.encoder_attention_heads,
        d_ff=theirs.encoder_ffn_dim,
        n_layers=theirs.encoder_layers,
        n_decoder_layers=theirs.decoder_layers,
        norm="post",
        activation=HUGGING_FACE_ACTIVATIONS[theirs.activation_function],
        share=share,
        dropout=theirs.dropout,
        attention_dropout=theirs.attention_dropout,
        max_tokens=theirs.max_position_embeddings,
    )


def shared_matrices(model: "MarianMTModel") -> Share:
    """Return which token matrices of a Marian model are shared; "none" if its embeddings are not scaled."""
    source, target = (side.embed_tokens.weight for side in (model.model.encoder, model.model.decoder))
    if target is not model.lm_head.weight or not model.config.scale_embedding:
        return "none"
    return "all" if source is target else "target"


def unsupported_reasons(config: TransformerConfig) -> Iterator[str]:
    """Yield each setting of a Transformer that Marian does not support."""
    if config.norm != "post":
        yield f"norm={config.norm!r}, and Marian's blocks are post-norm"
    if config.positions != "sinusoidal":
        yield f"positions={config.positions!r}, and Marian's are sinusoidal"
    if config.n_key_heads not in (None, config.n_heads):
        yield f"n_key_heads={config.n_key_heads}, and Marian has as many as n_heads={config.n_heads}"
    if ACTIVATIONS[config.activation].hugging_face is None:
        yield f"activation={config.activation!r}, and Marian has none that is gated"


def pairs(config: TransformerConfig) -> Iterator[tuple[str, str, int | None]]:
    """Yield each parameter's name here, its name in Marian, and its axis along a token's vector."""
    yield "encoder.embedding.by_token.weight", "model.encoder.embed_tokens.weight", 1
    yield "decoder.embedding.by_token.weight", "model.decoder.embed_tokens.weight", 1
    yield "decoder.to_logits.weight", "lm_head.weight", 1
    yield "decoder.to_logits.bias", "final_logits_bias", None
    n_decoder = config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers
    for side, n_layers, layers in (("encoder", config.n_layers, BLOCK), ("decoder", n_decoder, {**BLOCK, **CROSS})):
        for i in range(n_layers):
            for ours, (theirs, axes) in layers.items():
                for end, axis in axes.items():
                    yield f"{side}.blocks.{i}.{ours}{end}", f"model.{side}.layers.{i}.{theirs}{end}", axis


def marian_order(d_model: int) -> Int[Tensor, " d_model"]:
    """Return the place in a vector of Marian's of each number of ours, where sines and cosines alternate.

    >>> marian_order(6)
    tensor([0, 3, 1, 4, 2, 5])
    """
    n_sines = (d_model + 1) // 2
    order = torch.empty(d_model, dtype=torch.long)
    order[0::2], order[1::2] = torch.arange(n_sines), torch.arange(n_sines, d_model)
    return order


def reorder(
    parameter: Float[Tensor, "*shape"], axis: int | None, order: Int[Tensor, " d_model"]
) -> Float[Tensor, "*shape"]:
    """Return a parameter with the numbers along one axis in another order."""
    return parameter if axis is None else parameter.index_select(axis, order.to(parameter.device))
