"""A Transformer as two modules whose inputs and outputs are tensors, as an exporter to ONNX needs them.

`EncoderGraph` and `DecoderGraph` call the model's own encoder and decoder, and pass keys and values as tensors where
these pass states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.layers.key_value import KeyValue
from regard.transformer.decoding.cache import BlockCache
from regard.transformer.decoding.state import DecodingState
from regard.transformer.model import Transformer

Axes = Sequence[str | int]
"""The axes of a tensor: a name for one of any length, a number for one that is fixed."""


PAST, PRESENT = "past_", "present_"
"""Prefixes of the names of a state's tensors: before a step, and after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """A module to export as an ONNX graph.

    Attributes:
        module: takes the inputs and returns the outputs, in their order.
        example: inputs with which the exporter runs the module.
        inputs: names and axes of the inputs.
        outputs: names and axes of the outputs.
    """

    module: nn.Module
    example: tuple[Tensor | tuple[Tensor, ...], ...]
    inputs: dict[str, Axes]
    outputs: dict[str, Axes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Graphs:
    """The graphs of a translator.

    The decoder takes a token, the lengths, the encoder's outputs and its state, and returns logits and the next state.
    """

    encoder: Graph
    decoder: Graph


class EncoderGraph(nn.Module):
    """From a source and its lengths to keys and values of the cross-attention of every block of the decoder."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder

    def forward(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch heads source d_head"], ...]:
        """Return keys and values, block by block."""
        state = self.decoder.start(self.encoder(source, lengths).output, lengths)
        return tensors_of(state.sources)


class DecoderGraph(nn.Module):
    """From one token and the state to logits and the next state."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.decoder = model.decoder

    def forward(
        self, token: Int[Tensor, "batch 1"], lengths: Int[Tensor, " batch"], keys_values: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return logits of the next token, and keys and values of the target's tokens, block by block.

        Args:
            keys_values: keys and values of the source for every block, then those of the tokens before.
        """
        half = len(keys_values) // 2
        cache = BlockCache(blocks_of(keys_values[half:]))
        state = DecodingState(lengths=lengths, memory=blocks_of(keys_values[:half]), cache=cache)
        decoded = self.decoder(token, state)
        return decoded.logits[:, 0], *tensors_of(decoded.state.cache.blocks)


def transformer_graphs(model: Transformer) -> Graphs:
    """Return the graphs of a Transformer, with example inputs."""
    config = model.config
    heads = config.n_heads if config.n_key_heads is None else config.n_key_heads
    blocks = range(len(model.decoder.blocks))

    def key_value_axes(prefix: str, axis: str) -> dict[str, Axes]:
        return {
            f"{prefix}{part}_{i}": ("batch", heads, axis, config.d_head) for i in blocks for part in ("key", "value")
        }

    source, lengths = torch.full((2, 5), config.n_source_tokens - 1), torch.tensor([5, 3])
    encoder = EncoderGraph(model)
    memory = encoder(source, lengths)
    past = tuple(torch.zeros(2, heads, 3, config.d_head).to(part) for part in memory)
    texts: dict[str, Axes] = {"lengths": ("batch",)}
    return Graphs(
        encoder=Graph(
            module=encoder,
            example=(source, lengths),
            inputs={"source": ("batch", "source"), **texts},
            outputs=key_value_axes("source_", "source"),
        ),
        decoder=Graph(
            module=DecoderGraph(model),
            example=(torch.full((2, 1), config.n_target_tokens - 1), lengths, (*memory, *past)),
            inputs={
                "token": ("batch", 1),
                **texts,
                **key_value_axes("source_", "source"),
                **key_value_axes(PAST, "past"),
            },
            outputs={"logits": ("batch", config.n_target_tokens), **key_value_axes(PRESENT, "present")},
        ),
    )


def tensors_of(blocks: Sequence[KeyValue]) -> tuple[Tensor, ...]:
    """Return the key and value of each block in turn."""
    return tuple(tensor for block in blocks for tensor in (block.key, block.value))


def blocks_of(tensors: Sequence[Tensor]) -> tuple[KeyValue, ...]:
    """Return the keys and values of each block, from tensors as `tensors_of` returns them."""
    pairs = zip(tensors[::2], tensors[1::2], strict=True)
    return tuple(KeyValue(key=key, value=value) for key, value in pairs)
