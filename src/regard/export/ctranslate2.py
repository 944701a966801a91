"""Exporting a Transformer to CTranslate2, an inference engine that is fast on CPUs.

    config.json model.bin *_vocabulary.json     the model in float32; CTranslate2 quantises it to int8 on request
    source.spm target.spm                       the vocabularies, to split texts into pieces and to join pieces

The parameters are copied into CTranslate2's own TransformerSpec.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError, import_extra
from regard.export.ungrouped import ungroup
from regard.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from regard.transformer.config import TransformerConfig
from regard.transformer.feed_forward import ACTIVATIONS
from regard.transformer.model import Transformer
from regard.translation.translator import Translator

LEAST_POSITIONS = 1024
"""The smallest number of sinusoidal position vectors in an export, even if max_tokens is smaller.

CTranslate2 may write more than max_tokens pieces: up to 256 by default, and more if a user asks for more. Sinusoidal
vectors can be computed for any position.
"""


def write(translator: Translator, folder: Path) -> None:
    specs = import_extra("ctranslate2.specs", "export,translation")
    model = checked_model(translator.model)
    spec = transformer_spec(specs, ungroup(model))  # afterwards no query heads share a key head
    source, target = translator.source_vocabulary, translator.target_vocabulary
    spec.register_source_vocabulary(all_pieces(source))
    pieces = all_pieces(target)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token = pieces[UNK]
    spec.config.bos_token = pieces[BOS]
    spec.config.eos_token = pieces[EOS]
    spec.config.decoder_start_token = pieces[BOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.encoder.blocks[0].self_attention_norm.eps  # type: ignore[union-attr]
    spec.validate()
    spec.save(str(folder))
    source.save(folder / "source.spm")
    target.save(folder / "target.spm")


def checked_model(model: object) -> Transformer:
    if not isinstance(model, Transformer):
        raise InputError(
            f"CTranslate2 runs Transformers, and this is a {type(model).__name__} translator; export it with --to onnx."
        )
    if ACTIVATIONS[model.config.activation].ctranslate2 is None:
        names = [name for name, activation in ACTIVATIONS.items() if activation.ctranslate2 is not None]
        raise InputError(
            f"CTranslate2 has no activation {model.config.activation!r}; it has {', '.join(names)}. "
            "Export this model with --to onnx."
        )
    return model


def transformer_spec(specs: Any, model: Transformer) -> Any:
    config = model.config
    settings = {
        "num_heads": config.n_heads,
        "pre_norm": config.norm == "pre",
        "activation": specs.Activation[ACTIVATIONS[config.activation].ctranslate2],
        "ffn_glu": ACTIVATIONS[config.activation].gated,
        "rotary_dim": config.d_head if config.positions == "rotary" else None,
        "rotary_interleave": False,
    }
    encoder = specs.TransformerEncoderSpec(len(model.encoder.blocks), **settings)
    decoder = specs.TransformerDecoderSpec(len(model.decoder.blocks), **settings)
    set_embedding(encoder, encoder.embeddings[0], model.encoder, config)
    set_embedding(decoder, decoder.embeddings, model.decoder, config)
    set_linear(decoder.projection, [model.decoder.to_logits])
    for spec, side in ((encoder, model.encoder), (decoder, model.decoder)):
        if side.norm is not None:
            set_norm(spec.layer_norm, side.norm)
        for layer, block in zip(spec.layer, side.blocks, strict=True):
            set_block(layer, block)
    return specs.TransformerSpec(encoder, decoder)


def set_embedding(spec: Any, embedding_spec: Any, module: Any, config: TransformerConfig) -> None:
    """Copy the token embedding (to `embedding_spec`) and the position vectors (to `spec`) of an encoder or decoder."""
    embedding_spec.weight = as_array(module.embedding.by_token.weight)
    spec.scale_embeddings = True  # CTranslate2 multiplies embeddings by √d_model, as the Transformer does
    if config.positions == "rotary":
        if hasattr(spec, "position_encodings"):  # an encoder has it by default, for positions that are added
            del spec.position_encodings
        return
    is_sinusoidal = config.positions == "sinusoidal"
    n_positions = max(config.max_tokens, LEAST_POSITIONS) if is_sinusoidal else config.max_tokens
    spec.position_encodings.encodings = as_array(module.embedding.position_vectors(n_positions, first=0))


def set_block(layer: Any, block: Any) -> None:
    """Copy the parameters of a block into `layer`, CTranslate2's description of the block.

    CTranslate2 concatenates the projections to query, key and value of self-attention into one matrix, and the
    projections to key and value of cross-attention into another.
    """
    attention = block.self_attention
    set_linear(layer.self_attention.linear[0], [attention.to_query, attention.to_key, attention.to_value])
    set_linear(layer.self_attention.linear[1], [attention.to_output])
    set_norm(layer.self_attention.layer_norm, block.self_attention_norm)
    if hasattr(block, "cross_attention"):
        cross = block.cross_attention
        set_linear(layer.attention.linear[0], [cross.to_query])
        set_linear(layer.attention.linear[1], [cross.to_key, cross.to_value])
        set_linear(layer.attention.linear[2], [cross.to_output])
        set_norm(layer.attention.layer_norm, block.cross_attention_norm)
    set_feed_forward(layer.ffn, block.feed_forward)
    set_norm(layer.ffn.layer_norm, block.feed_forward_norm)


def set_feed_forward(spec: Any, network: Any) -> None:
    """Copy the parameters of a feed-forward network into `spec`, CTranslate2's description of the network.

    CTranslate2 divides the first layer of a gated network into two: it applies the activation to the output of
    `linear_0` (the gate), but not to that of `linear_0_noact`.
    """
    set_linear(spec.linear_1, [network.narrow])
    if not network.gated:
        set_linear(spec.linear_0, [network.widen])
        return
    # the first half of the outputs of `widen` is the hidden vector, the second half its gate: see `FeedForward`
    for name in ("weight", "bias"):
        hidden, gate = getattr(network.widen, name).chunk(2)
        setattr(spec.linear_0, name, as_array(gate))
        setattr(spec.linear_0_noact, name, as_array(hidden))


def set_linear(spec: Any, layers: Sequence[nn.Linear]) -> None:
    """Copy linear layers with the same input into `spec`, one layer of the export that concatenates their outputs."""
    spec.weight = np.concatenate([as_array(layer.weight) for layer in layers])
    spec.bias = np.concatenate([as_array(layer.bias) for layer in layers])


def set_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = as_array(norm.weight), as_array(norm.bias)


def as_array(tensor: Tensor) -> Float[np.ndarray, "*shape"]:
    return tensor.detach().float().cpu().contiguous().numpy()


def all_pieces(vocabulary: Vocabulary) -> list[str]:
    return vocabulary.pieces(range(len(vocabulary)))


class LoadedExport:
    """An export that CTranslate2 runs: an `ExportedTranslator`."""

    def __init__(self, folder: Path) -> None:
        # CTranslate2 sets the number of OpenMP threads of the whole process: give it torch's number.
        threads = torch.get_num_threads()
        self.translator = import_extra("ctranslate2", "export,translation").Translator(
            str(folder), compute_type="float32", intra_threads=threads
        )
        sentencepiece = import_extra("sentencepiece", "export,translation")
        self.source_processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        self.target_processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))

    def translate(self, text: str, limit: int) -> tuple[list[int], str]:
        forbidden = [[self.target_processor.id_to_piece(token)] for token in (PAD, BOS)]
        results = self.translator.translate_batch(
            [self.source_processor.encode(text, out_type=str)],
            beam_size=1,
            max_decoding_length=limit,
            min_decoding_length=0,
            suppress_sequences=forbidden,
        )
        pieces = results[0].hypotheses[0]
        ids = [self.target_processor.piece_to_id(piece) for piece in pieces]
        return ids, self.target_processor.decode_pieces(pieces)

    def log_probability(self, text: str, tokens: list[int]) -> float:
        target = [self.target_processor.id_to_piece(token) for token in tokens]
        scores = self.translator.score_batch([self.source_processor.encode(text, out_type=str)], [target])
        return float(sum(scores[0].log_probs))  # EOS counted
