"""Convert Hugging Face's Marian and Pegasus models to a `Transformer`, and a `Transformer` to a Marian model.

Marian is the model of Vaswani et al. 2017, with post-norm and sinusoidal positions. Only the position vectors differ:
Marian has all sines before all cosines, `Transformer` alternates sines and cosines. So the conversion permutes the
numbers of all token vectors: in each parameter, the axis that runs along a token vector (its vector axis). The logits
stay the same. Pegasus is like Marian, but pre-norm, with a norm after the last block. `regard export` writes a pre-norm
Transformer as a Pegasus model (export/huggingface).

Source: Junczys-Dowmunt et al. 2018; the checkpoints of Tiedemann & Thottingal 2020 (OPUS-MT).
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.positions.sinusoidal import sinusoidal
from regard.errors import InputError, import_extra
from regard.transformer.config import Position, Share, TransformerConfig
from regard.transformer.feed_forward import ACTIVATIONS, Activation
from regard.transformer.model import Transformer

if TYPE_CHECKING:
    from transformers import MarianConfig, MarianMTModel, PegasusForConditionalGeneration

HUGGING_FACE_ACTIVATIONS: Mapping[str, Activation] = {
    entry.hugging_face: name for name, entry in ACTIVATIONS.items() if entry.hugging_face is not None
}

Axes = Mapping[str, int | None]
"""For each parameter of a layer (".weight", ".bias"), the index of its vector axis; None = no such axis."""

INPUT_AXES: Axes = {".weight": 1, ".bias": None}
"""The vector axes of a linear layer whose input is a token vector; its output, such as a query, is not permuted."""

OUTPUT_AXES: Axes = {".weight": 0, ".bias": 0}
"""The vector axes of a LayerNorm, or of a linear layer whose output is added to token vectors."""

BLOCK_LAYERS: Mapping[str, tuple[str, Axes]] = {
    "self_attention.to_query": ("self_attn.q_proj", INPUT_AXES),
    "self_attention.to_key": ("self_attn.k_proj", INPUT_AXES),
    "self_attention.to_value": ("self_attn.v_proj", INPUT_AXES),
    "self_attention.to_output": ("self_attn.out_proj", OUTPUT_AXES),
    "self_attention_norm": ("self_attn_layer_norm", OUTPUT_AXES),
    "feed_forward.widen": ("fc1", INPUT_AXES),
    "feed_forward.narrow": ("fc2", OUTPUT_AXES),
    "feed_forward_norm": ("final_layer_norm", OUTPUT_AXES),
}
"""{name of a layer of a block in `Transformer`: (its name in Marian, its vector axes)}"""

CROSS_ATTENTION_LAYERS: Mapping[str, tuple[str, Axes]] = {
    "cross_attention.to_query": ("encoder_attn.q_proj", INPUT_AXES),
    "cross_attention.to_key": ("encoder_attn.k_proj", INPUT_AXES),
    "cross_attention.to_value": ("encoder_attn.v_proj", INPUT_AXES),
    "cross_attention.to_output": ("encoder_attn.out_proj", OUTPUT_AXES),
    "cross_attention_norm": ("encoder_attn_layer_norm", OUTPUT_AXES),
}
"""{name of a cross-attention layer in `Transformer`: (its name in Marian, its vector axes)}"""


def from_marian(model: "MarianMTModel | PegasusForConditionalGeneration | str | Path") -> Transformer:
    """Return a Transformer that gives the same logits as a Marian or Pegasus model.

    The targets of this Transformer begin with the model config's decoder_start_token_id (usually the padding id), not
    with BOS. The settings activation_dropout and layerdrop, which only training uses, are not copied.

    Args:
        model: a MarianMTModel or PegasusForConditionalGeneration, or a folder that one was saved in.

    Raises:
        InputError: the folder contains neither a Marian nor a Pegasus model, or transformers is not installed.
        ValueError: a setting of the model has no equivalent in `TransformerConfig`; the message names the setting.
    """
    if not isinstance(model, str | Path):
        return copy_from_marian(model)
    transformers = import_extra("transformers", "huggingface")
    if not (Path(model) / "config.json").is_file():
        raise InputError(f"{model} has no config.json; give the folder of a saved Marian model.")
    kind = transformers.AutoConfig.from_pretrained(model).model_type
    if kind not in ("marian", "pegasus"):
        raise InputError(
            f"{model} contains a model of type {kind!r}; only 'marian' and 'pegasus' can become a Transformer."
        )
    return copy_from_marian(transformers.AutoModelForSeq2SeqLM.from_pretrained(model))


def to_marian(model: Transformer, *, pad: int = 0, bos: int = 2, eos: int = 3) -> "MarianMTModel":
    """Return a MarianMTModel that gives the same logits as a Transformer.

    Args:
        pad: the id of padding.
        bos: the id that begins a target.
        eos: the id that ends a source or target.

    Raises:
        InputError: a setting of the Transformer has no equivalent in Marian, or transformers is not installed.
    """
    config, reasons = model.config, list(unsupported_reasons(model.config))
    if reasons:
        raise InputError(f"this Transformer cannot become a Marian model: {'; '.join(reasons)}.")
    transformers = import_extra("transformers", "huggingface")
    marian = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=config.n_source_tokens,
            decoder_vocab_size=config.n_target_tokens,
            share_encoder_decoder_embeddings=config.share == "all",
            tie_word_embeddings=config.share != "none",
            **hugging_face_settings(config, pad, bos, eos),
        )
    ).to(model.decoder.to_logits.weight)
    order_of_marian = marian_order(config.d_model).argsort()  # the inverse of the permutation marian_order
    parameters = dict(marian.state_dict())  # some of them only Marian has, e.g. position vectors
    regard_parameters = model.state_dict()
    for name, marian_name, axis in parameter_names(config):
        parameters[marian_name] = reorder(regard_parameters[name], axis, order_of_marian)
    parameters["final_logits_bias"] = parameters["final_logits_bias"][None]  # in Marian [1, vocabulary]
    if config.share == "all":  # Marian then has one embedding matrix, `shared`
        parameters["model.shared.weight"] = parameters["lm_head.weight"]
    marian.load_state_dict(parameters)
    return marian.train(model.training)


def hugging_face_settings(config: TransformerConfig, pad: int, bos: int, eos: int) -> dict[str, Any]:
    """Return a Transformer's settings and the ids of three tokens, by their names in a Marian or Pegasus config."""
    return {
        "d_model": config.d_model,
        "encoder_layers": config.n_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": ACTIVATIONS[config.activation].hugging_face,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "max_position_embeddings": config.max_tokens,
        "scale_embedding": True,
        "pad_token_id": pad,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "decoder_start_token_id": bos,
        "forced_eos_token_id": None,
    }


def copy_from_marian(model: "MarianMTModel | PegasusForConditionalGeneration") -> Transformer:
    marian_config, marian_parameters = model.config, dict(model.state_dict())
    d_model = marian_config.d_model
    waves = sinusoidal(marian_config.max_position_embeddings, d_model, order="sines first")
    positions = marian_parameters["model.encoder.embed_positions.weight"].cpu().float()
    # In half precision, waves are rounded by less than 1e-2. All other positions are learned: only regard writes such
    # models, and it leaves the numbers of their vectors in the order of `Transformer`.
    is_learned = not torch.allclose(positions, waves.float(), atol=1e-2)
    config = config_from_marian(marian_config, shared_matrices(model), "learned" if is_learned else "sinusoidal")
    if not marian_config.scale_embedding:  # Transformer multiplies embeddings by √d_model, so divide them first
        for side in ("encoder", "decoder"):
            name = f"model.{side}.embed_tokens.weight"
            marian_parameters[name] = marian_parameters[name] / math.sqrt(d_model)
    marian_parameters["final_logits_bias"] = marian_parameters["final_logits_bias"][0]  # in Marian [1, vocabulary]
    order = torch.arange(d_model) if is_learned else marian_order(d_model)
    copy = Transformer(config).to(model.lm_head.weight)
    parameters = {
        name: reorder(marian_parameters[marian_name], axis, order)
        for name, marian_name, axis in parameter_names(config)
    }
    copy.load_state_dict(parameters)
    return copy.train(model.training)


def config_from_marian(marian: "MarianConfig", share: Share, positions: Position) -> TransformerConfig:
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = getattr(marian, f"encoder_{name}"), getattr(marian, f"decoder_{name}")
        if encoder != decoder:
            raise ValueError(
                f"this Marian model has encoder_{name}={encoder} and decoder_{name}={decoder}; a Transformer has the "
                "same in both."
            )
    if marian.activation_function not in HUGGING_FACE_ACTIVATIONS:
        raise ValueError(
            f"this Marian model has activation_function={marian.activation_function!r}; a Transformer supports "
            f"{', '.join(HUGGING_FACE_ACTIVATIONS)}."
        )
    return TransformerConfig(
        n_source_tokens=marian.vocab_size,
        n_target_tokens=marian.decoder_vocab_size if marian.model_type == "marian" else marian.vocab_size,
        d_model=marian.d_model,
        n_heads=marian.encoder_attention_heads,
        d_ff=marian.encoder_ffn_dim,
        n_layers=marian.encoder_layers,
        n_decoder_layers=marian.decoder_layers,
        norm="post" if marian.model_type == "marian" else "pre",
        positions=positions,
        activation=HUGGING_FACE_ACTIVATIONS[marian.activation_function],
        share=share,
        dropout=marian.dropout,
        attention_dropout=marian.attention_dropout,
        max_tokens=marian.max_position_embeddings,
    )


def shared_matrices(model: "MarianMTModel | PegasusForConditionalGeneration") -> Share:
    """Return which vocabulary matrices are shared, or equal, after a Marian model has become a `Transformer`.

    Without scale_embedding in Marian's config, none are shared: `copy_from_marian` divides the embeddings by √d_model,
    but it does not change the output projection.
    """
    source, target = (side.embed_tokens.weight for side in (model.model.encoder, model.model.decoder))
    if not torch.equal(target, model.lm_head.weight) or not model.config.scale_embedding:
        return "none"
    return "all" if source.shape == target.shape and torch.equal(source, target) else "target"


def unsupported_reasons(config: TransformerConfig) -> Iterator[str]:
    """Yield a phrase for each setting of a Transformer that Marian does not support."""
    if config.norm != "post":
        yield f"norm={config.norm!r}, and Marian's blocks are post-norm"
    if config.positions != "sinusoidal":
        yield f"positions={config.positions!r}, and Marian has sinusoidal positions"
    if config.n_key_heads not in (None, config.n_heads):
        yield f"n_key_heads={config.n_key_heads}, and Marian has n_key_heads equal to n_heads={config.n_heads}"
    if ACTIVATIONS[config.activation].hugging_face is None:
        yield f"activation={config.activation!r}, and Marian has no gated activations"


def parameter_names(config: TransformerConfig) -> Iterator[tuple[str, str, int | None]]:
    """Yield each parameter's names in `Transformer` and Marian, and its vector axis (None = it has none)."""
    yield "encoder.embedding.by_token.weight", "model.encoder.embed_tokens.weight", 1
    yield "decoder.embedding.by_token.weight", "model.decoder.embed_tokens.weight", 1
    yield "decoder.to_logits.weight", "lm_head.weight", 1
    yield "decoder.to_logits.bias", "final_logits_bias", None
    for side in ("encoder", "decoder"):
        if config.norm == "pre":  # the norm after the last block
            yield from ((f"{side}.norm.{name}", f"model.{side}.layer_norm.{name}", 0) for name in ("weight", "bias"))
        if config.positions == "learned":
            yield f"{side}.embedding.positions.by_position", f"model.{side}.embed_positions.weight", 1
    decoder_layers = {**BLOCK_LAYERS, **CROSS_ATTENTION_LAYERS}
    sides = (("encoder", config.n_layers, BLOCK_LAYERS), ("decoder", config.decoder_layers, decoder_layers))
    for side, n_blocks, layers in sides:
        for i in range(n_blocks):
            for name, (marian_name, axes) in layers.items():
                block, marian_block = f"{side}.blocks.{i}", f"model.{side}.layers.{i}"
                for suffix, axis in axes.items():  # ".weight" and ".bias"
                    yield f"{block}.{name}{suffix}", f"{marian_block}.{marian_name}{suffix}", axis


def marian_order(d_model: int) -> Int[Tensor, " d_model"]:
    """Return, for each number of a `Transformer` vector, its index in a Marian vector, which has all sines first.

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
    """Return parameter.index_select(axis, order), or `parameter` itself if axis is None."""
    return parameter if axis is None else parameter.index_select(axis, order.to(parameter.device))
