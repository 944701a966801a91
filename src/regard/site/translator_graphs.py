"""The two ONNX graphs of a translator for a site: those of `regard export --to onnx`, with more outputs.

    encoder    "encoder layer 0 query", … key, value     [batch heads source width], for each layer
    decoder    "decoder layer 0 query", "cross layer 0 query"     [batch heads 1 width], for each layer

The decoder's keys and values are outputs already: in layer 0, source_key_0 and source_value_0 for cross-attention,
present_key_0 and present_value_0 for self-attention, and so on for each layer.
"""

from dataclasses import replace

from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError
from regard.export.transformer_graphs import DecoderGraph, EncoderGraph, Graphs, transformer_graphs
from regard.site.graph import PARTS, block_name
from regard.transformer.model import Transformer


class TracedEncoderGraph(EncoderGraph):
    """Encodes sources for the decoder, and returns the queries, keys and values of each encoder layer."""

    def forward(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> tuple[Tensor, ...]:
        """Return the cross-attention keys and values of each decoder layer, then Q, K and V of each encoder layer.

        `source` has the ids of padded sources, and `lengths` the number of tokens of each source.
        """
        encoded, tensors = self.encode(source, lengths)
        return *tensors, *(getattr(pattern, part) for pattern in encoded.patterns for part in PARTS)


class TracedDecoderGraph(DecoderGraph):
    """Computes one step of decoding, and also returns the new token's queries in each decoder layer."""

    def forward(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], keys_values: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return logits, self-attention keys and values, then for each layer the self- and the cross-attention queries.

        Args:
            token: the id of the new token of each sequence.
            lengths: the number of source tokens of each sequence.
            keys_values: the keys and values of cross-attention in each layer, then those cached by self-attention.
        """
        decoded, tensors = self.decode(token, lengths, keys_values)
        layers = zip(decoded.patterns, decoded.cross, strict=True)
        return *tensors, *(pattern.query for layer in layers for pattern in layer)


def translator_graphs(model: object) -> Graphs:
    """Return the two graphs of a translator for a site; raise InputError if `model` is not a regard Transformer."""
    if not isinstance(model, Transformer):
        raise InputError(
            f"this translator is a {type(model).__name__}; a site runs translators that are Transformers, whose "
            "weights the page computes from queries and keys. regard explore --translator shows this one."
        )
    exported, config = transformer_graphs(model), model.config
    heads, key_heads = config.n_heads, config.n_heads if config.n_key_heads is None else config.n_key_heads
    n_heads = dict(zip(PARTS, (heads, key_heads, key_heads), strict=True))
    of_encoder = {
        block_name("encoder", layer, part): ("batch", n_heads[part], "source", config.d_head)
        for layer in range(len(model.encoder.blocks))
        for part in PARTS
    }
    of_decoder = {
        block_name(kind, layer, "query"): ("batch", heads, 1, config.d_head)
        for layer in range(len(model.decoder.blocks))
        for kind in ("decoder", "cross")
    }
    return Graphs(
        encoder=replace(
            exported.encoder, module=TracedEncoderGraph(model), outputs=exported.encoder.outputs | of_encoder
        ),
        decoder=replace(
            exported.decoder, module=TracedDecoderGraph(model), outputs=exported.decoder.outputs | of_decoder
        ),
    )
