"""The two ONNX graphs of a translator for a site: those of `regard export --to onnx`, with more outputs.

The additional outputs of a Transformer's graphs, by name ("… key" stands for "encoder layer 0 key"):

    encoder    "encoder layer 0 query", "… key", "… value"     [batch heads source width], for each layer
    decoder    "decoder layer 0 query", "cross layer 0 query"     [batch heads 1 width], for each layer
    both       "encoder layer 0 before", "… attention", "… feed_forward", "… after" (or "decoder layer 0 …")
               [batch 1 tokens d_model], for each layer; see hidden_vectors.py

The additional output of a recurrent translator, because the page computes attention weights only from dot products:

    decoder    "cross layer 0 weights"     [batch 1 1 source]

A Transformer's decoder has keys and values as outputs already: in layer 0, source_key_0 and source_value_0 for
cross-attention, present_key_0 and present_value_0 for self-attention, and so on for each layer.
"""

from dataclasses import replace

from jaxtyping import Int
from torch import Tensor

from regard.export import recurrent_graphs
from regard.export.onnx import graphs_of
from regard.export.transformer_graphs import DecoderGraph, EncoderGraph, Graphs
from regard.recurrent.model import Recurrent
from regard.site.block_names import PARTS, WEIGHTS, block_name
from regard.site.hidden_vectors import hidden_names, recording_hidden, translator_paths
from regard.transformer.model import Transformer


class TracedEncoderGraph(EncoderGraph):
    """The encoder; it also returns the query, key, value and hidden vectors of each encoder layer."""

    def __init__(self, model: Transformer) -> None:
        super().__init__(model)
        self.paths = translator_paths(model, "encoder")

    def forward(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> tuple[Tensor, ...]:
        """Return the cross-attention keys and values of each decoder layer, then the vectors of each encoder layer.

        The vectors of the encoder are first the query, key and value of each layer, then the hidden vectors of each
        layer. `source` has the ids of padded sources, and `lengths` the number of tokens of each source.
        """
        with recording_hidden(self, self.paths) as hidden_vectors:
            encoded, cross_keys_values = self.encode(source, lengths)
        vectors = [getattr(pattern, part) for pattern in encoded.patterns for part in PARTS]
        return *cross_keys_values, *vectors, *(hidden_vectors[name] for name in hidden_names(self.paths))


class TracedDecoderGraph(DecoderGraph):
    """One step of decoding; it also returns the new token's queries and hidden vectors in each layer."""

    def __init__(self, model: Transformer) -> None:
        super().__init__(model)
        self.paths = translator_paths(model, "decoder")

    def forward(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], keys_values: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the logits, the self-attention keys and values of all tokens, then the vectors of the new token.

        The vectors of the new token are first its queries of self-attention and of cross-attention in each layer, then
        its hidden vectors in each layer.

        Args:
            lengths: the number of source tokens of each sequence.
            keys_values: the keys and values of cross-attention in each layer, then those cached by self-attention.
        """
        with recording_hidden(self, self.paths) as hidden_vectors:
            decoded, logits_keys_values = self.decode(token, lengths, keys_values)
        self_and_cross_attention = zip(decoded.patterns, decoded.cross, strict=True)
        queries = [pattern.query for layer in self_and_cross_attention for pattern in layer]
        return *logits_keys_values, *queries, *(hidden_vectors[name] for name in hidden_names(self.paths))


class TracedRecurrentDecoderGraph(recurrent_graphs.DecoderGraph):
    """One step of a recurrent decoder; it also returns the attention weights of the new token."""

    def forward(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], tensors: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the logits, the changed tensors of the state, then the weights; `tensors` is explained in `step`."""
        step = self.step(token, lengths, tensors)
        pattern = self.decoder.reader.pattern(step.query, step.state.memory, first=0, previous=step.previous[:, None])
        return *self.tensors_after(step), pattern.weights(pattern.grid.whole())  # whole: all queries and keys


def translator_graphs(model: object) -> Graphs:
    """Return the two graphs of a Transformer or Recurrent translator for a site."""
    exported = graphs_of(model)
    if isinstance(model, Recurrent):
        outputs = exported.decoder.outputs | {block_name("cross", 0, WEIGHTS): ("batch", 1, 1, "source")}
        module = TracedRecurrentDecoderGraph(model)
        return replace(exported, decoder=replace(exported.decoder, module=module, outputs=outputs))
    assert isinstance(model, Transformer)
    config = model.config
    n_heads = {"query": config.n_heads, "key": config.key_heads, "value": config.key_heads}
    encoder_outputs = {
        block_name("encoder", layer, part): ("batch", n_heads[part], "source", config.d_head)
        for layer in range(len(model.encoder.blocks))
        for part in PARTS
    }
    decoder_outputs = {
        block_name(kind, layer, "query"): ("batch", config.n_heads, 1, config.d_head)
        for layer in range(len(model.decoder.blocks))
        for kind in ("decoder", "cross")
    }
    encoder, decoder = TracedEncoderGraph(model), TracedDecoderGraph(model)
    encoder_outputs |= dict.fromkeys(hidden_names(encoder.paths), ("batch", 1, "source", config.d_model))
    decoder_outputs |= dict.fromkeys(hidden_names(decoder.paths), ("batch", 1, 1, config.d_model))
    return Graphs(
        encoder=replace(exported.encoder, module=encoder, outputs=exported.encoder.outputs | encoder_outputs),
        decoder=replace(exported.decoder, module=decoder, outputs=exported.decoder.outputs | decoder_outputs),
    )
