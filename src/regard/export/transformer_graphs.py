"""A Transformer as two modules whose inputs and outputs are only tensors, as torch.onnx.export requires.

In place of a `DecodingState`, the modules take and return its keys and values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.layers.key_value import KeyValue
from regard.transformer.decoder import Decoded
from regard.transformer.decoding.state import DecodingState
from regard.transformer.encoder import Encoded
from regard.transformer.model import Transformer

Axes = Sequence[str | int]
"""The axes of a tensor: an int is the size of an axis, a str the name of an axis of variable size."""

PAST, PRESENT = "past_", "present_"
"""The prefixes of the names of state tensors: past_ for an input of a decoding step, present_ for an output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """A module to export as an ONNX graph.

    Attributes:
        module: the module; its arguments are `inputs` and its results `outputs`, in their order.
        example: inputs with which the exporter traces the module.
        inputs, outputs: the axes of each tensor, by the name of the tensor.
    """

    module: nn.Module
    example: tuple[Tensor | tuple[Tensor, ...], ...]
    inputs: dict[str, Axes]
    outputs: dict[str, Axes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Graphs:
    """The two graphs of a translator.

    The encoder graph takes source ids and their lengths. The decoder graph takes a target token, the lengths of the
    sources, the outputs of the encoder graph and the decoder state; it returns logits and the new decoder state.
    """

    encoder: Graph
    decoder: Graph


class EncoderGraph(nn.Module):
    """The encoder; it also computes the cross-attention keys and values of each decoder block."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder

    def forward(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch heads source d_head"], ...]:
        """Return, for each decoder block, the key and the value of its cross-attention, as one flat tuple."""
        _encoded, keys_values = self.encode(source, lengths)
        return keys_values

    def encode(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Encoded, tuple[Tensor, ...]]:
        """Return the output of the encoder, which the graphs of `regard site` need too, and what `forward` returns."""
        encoded = self.encoder(source, lengths)
        return encoded, tensors_of(self.decoder.start(encoded.output, lengths).sources)


class DecoderGraph(nn.Module):
    """One decoding step: it reads one target token of each sentence, and the keys and values of earlier tokens."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.decoder = model.decoder

    def forward(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], keys_values: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the logits of the next token, then for each block the self-attention keys and values of all tokens.

        Args:
            keys_values: for each block the cross-attention keys and values, in the order in which the encoder graph
                returns them; then for each block the self-attention keys and values of the tokens before `token`.
        """
        _decoded, outputs = self.decode(token, lengths, keys_values)
        return outputs

    def decode(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], keys_values: tuple[Tensor, ...]
    ) -> tuple[Decoded, tuple[Tensor, ...]]:
        """Return the output of the decoder, which the graphs of `regard site` need too, and what `forward` returns."""
        half = len(keys_values) // 2
        sources = blocks_of(keys_values[:half])
        cache = blocks_of(keys_values[half:])
        decoded = self.decoder(token, DecodingState(lengths=lengths, memory=sources, cache=cache))
        return decoded, (decoded.logits[:, 0], *tensors_of(decoded.state.cache))


def transformer_graphs(model: Transformer) -> Graphs:
    config = model.config
    blocks = range(len(model.decoder.blocks))

    def key_value_axes(prefix: str, axis: str) -> dict[str, Axes]:
        """Return the axes of the keys and values of all blocks, by names such as "past_key_0"."""
        return {
            f"{prefix}{part}_{i}": ("batch", config.key_heads, axis, config.d_head)  # query heads may share one
            for i in blocks
            for part in ("key", "value")
        }

    source = torch.full((2, 5), config.n_source_tokens - 1)  # the last id: no special token, which have the first ids
    lengths = torch.tensor([5, 3])
    encoder = EncoderGraph(model)
    source_keys_values = encoder(source, lengths)
    # the exporter traces a step after 3 cached tokens
    past = tuple(torch.zeros(2, config.key_heads, 3, config.d_head).to(part) for part in source_keys_values)
    lengths_axes: dict[str, Axes] = {"lengths": ("batch",)}
    return Graphs(
        encoder=Graph(
            module=encoder,
            example=(source, lengths),
            inputs={"source": ("batch", "source"), **lengths_axes},
            outputs=key_value_axes("source_", "source"),
        ),
        decoder=Graph(
            module=DecoderGraph(model),
            example=(torch.full((2, 1), config.n_target_tokens - 1), lengths, (*source_keys_values, *past)),
            inputs={
                "token": ("batch", 1),
                **lengths_axes,
                **key_value_axes("source_", "source"),
                **key_value_axes(PAST, "past"),
            },
            outputs={"logits": ("batch", config.n_target_tokens), **key_value_axes(PRESENT, "present")},
        ),
    )


def tensors_of(blocks: Sequence[KeyValue]) -> tuple[Tensor, ...]:
    """Return the key and the value of the first block, of the second block, and so on."""
    return tuple(tensor for block in blocks for tensor in (block.key, block.value))


def blocks_of(tensors: Sequence[Tensor]) -> tuple[KeyValue, ...]:
    """Group the tensors key, value, key, value, … into one `KeyValue` for each block."""
    pairs = zip(tensors[::2], tensors[1::2], strict=True)
    return tuple(KeyValue(key=key, value=value) for key, value in pairs)
