"""Encoders and decoders as arguments of the CPU kernels: pointers to their parameters, and their sizes."""

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from regard.attention.positions.rotary import Rotary
from regard.kernels.structs import fields_of
from regard.transformer.block import DecoderBlock, EncoderBlock
from regard.transformer.decoder import Decoder
from regard.transformer.decoding.supported import WIDTH_MULTIPLE, unsupported_reason
from regard.transformer.embedding import Embedding
from regard.transformer.encoder import Encoder
from regard.transformer.feed_forward import ACTIVATIONS


class LinearParameters(ctypes.Structure):
    """The C struct `Linear` of kernels/linear.h; the weight of a quantised layer (see int8.py) is null."""

    _fields_ = fields_of("linear.h", "Linear")

    @classmethod
    def of(cls, layer: nn.Linear) -> "LinearParameters":
        return cls(
            weight=layer.weight.data_ptr(),
            bias=layer.bias.data_ptr(),
            n_in=layer.in_features,
            n_out=layer.out_features,
        )


LinearOf = Callable[[nn.Linear], LinearParameters]
"""A function that returns the parameters of a linear layer as they are, or quantised."""


class NormParameters(ctypes.Structure):
    """The C struct `Norm` of kernels/blocks.h."""

    _fields_ = fields_of("blocks.h", "Norm")

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> "NormParameters":
        return cls(weight=norm.weight.data_ptr(), bias=norm.bias.data_ptr(), eps=norm.eps)


class EmbeddingParameters(ctypes.Structure):
    """The C struct `Embedding` of kernels/blocks.h."""

    _fields_ = fields_of("blocks.h", "Embedding")

    @classmethod
    def of(cls, embedding: Embedding) -> "EmbeddingParameters":
        vectors, positions = embedding.by_token.weight, embedding.stored_positions
        return cls(
            vectors=vectors.data_ptr(),
            vocabulary=len(vectors),
            scale=embedding.scale,
            positions=None if positions is None else positions.data_ptr(),
            n_positions=sys.maxsize if positions is None else len(positions),  # no limit with rotary positions
        )


class BlockParameters(ctypes.Structure):
    """The C struct `Block` of kernels/blocks.h; an encoder block has null pointers for cross-attention."""

    _fields_ = fields_of("blocks.h", "Block", Linear=LinearParameters, Norm=NormParameters)

    @classmethod
    def of(cls, block: DecoderBlock | EncoderBlock, linear_of: LinearOf) -> "BlockParameters":
        attention, feed_forward = block.self_attention, block.feed_forward
        parameters = cls(
            query=linear_of(attention.to_query),
            key=linear_of(attention.to_key),
            value=linear_of(attention.to_value),
            self_attention_output=linear_of(attention.to_output),
            widen=linear_of(feed_forward.widen),
            narrow=linear_of(feed_forward.narrow),
            self_attention_norm=NormParameters.of(block.self_attention_norm),
            feed_forward_norm=NormParameters.of(block.feed_forward_norm),
        )
        if isinstance(block, DecoderBlock) and block.cross_attention is not None:
            parameters.cross_query = linear_of(block.cross_attention.to_query)
            parameters.cross_attention_output = linear_of(block.cross_attention.to_output)
            parameters.cross_attention_norm = NormParameters.of(cast("nn.LayerNorm", block.cross_attention_norm))
        return parameters


class StackParameters(ctypes.Structure):
    """The C struct `Stack` of kernels/blocks.h: the blocks of an encoder or decoder, and their sizes."""

    _fields_ = fields_of("blocks.h", "Stack", Block=BlockParameters, Norm=NormParameters)

    def scratch_numbers(self, rows: int, tokens: int) -> int:
        """Return how many floats of scratch memory a thread needs for `rows` vectors that attend to `tokens` tokens."""
        # for each row: normed, output, query and context; key and value; the hidden layer of the feed-forward network
        row_size = 4 * self.d_model + 2 * self.key_heads * self.d_head + self.blocks[0].widen.n_out
        return int(rows * row_size + tokens + WIDTH_MULTIPLE)  # scores of one query, rounded up to a whole register


@dataclass(frozen=True, slots=True, eq=False)
class KernelModule:
    """An encoder or decoder as an argument of the C kernels: pointers to its parameters, and its sizes."""

    stack: StackParameters
    embedding: EmbeddingParameters
    memory_layers: "ctypes.Array[LinearParameters]"  # a decoder's: each block's key and value layer of cross-attention
    projection: LinearParameters  # a decoder's output projection
    storages: tuple[torch.UntypedStorage, ...]  # kept here, so that no memory is freed if a module replaces a tensor
    rotary: Rotary | None  # None = positions are not rotary

    @classmethod
    def of(cls, module: Encoder | Decoder) -> "KernelModule | None":
        """Return an encoder or decoder as an argument of the C kernels; None if the kernels do not support it.

        The result is computed again only if the module has changed since the last call.
        """
        snapshot, parameters = COMPUTED.get(module, (None, None))
        if snapshot is not None and snapshot.is_current():
            return parameters
        if unsupported_reason(module) is not None:
            # The stored snapshot refers to the module's hooks. A hook may refer to the module: remove the snapshot, so
            # that it does not keep the module in memory.
            COMPUTED.pop(module, None)
            return None
        parameters = cls.of_supported(module)
        COMPUTED[module] = Snapshot(module), parameters
        return parameters

    @classmethod
    def of_supported(cls, module: Encoder | Decoder, linear_of: LinearOf = LinearParameters.of) -> "KernelModule":
        """Return a module as an argument of the C kernels, which must support it: `unsupported_reason` returns None."""
        config, activation = module.config, ACTIVATIONS[module.config.activation]
        blocks = list(cast("Iterable[DecoderBlock | EncoderBlock]", module.blocks))
        stack = StackParameters(
            blocks=struct_array(BlockParameters, [BlockParameters.of(block, linear_of) for block in blocks]),
            n_blocks=len(blocks),
            d_model=config.d_model,
            heads=config.n_heads,
            key_heads=config.key_heads,
            d_head=config.d_head,
            activation=activation.kernel,
            gated=activation.gated,
            norm_first=config.norm == "pre",
        )
        if module.norm is not None:
            stack.norm = NormParameters.of(module.norm)
        memory_layers = []
        for block in blocks:
            if isinstance(block, DecoderBlock) and block.cross_attention is not None:
                memory_layers += [linear_of(block.cross_attention.to_key), linear_of(block.cross_attention.to_value)]
        return cls(
            stack=stack,
            embedding=EmbeddingParameters.of(module.embedding),
            memory_layers=struct_array(LinearParameters, memory_layers),
            projection=linear_of(module.to_logits) if isinstance(module, Decoder) else LinearParameters(),
            storages=tuple(tensor.untyped_storage() for tensor in (*module.parameters(), *module.buffers())),
            rotary=blocks[0].self_attention.positions,
        )


class Snapshot:
    """The parts of a module at one time, to find out whether the module has changed since then.

    These parts are compared: the attributes, submodules, parameters and buffers of the module and of its submodules;
    the classes of the submodules; the address, shape, strides and type of each parameter and buffer; and PyTorch's
    counter of hooks, which grows when any module gets a hook. The numbers in a parameter are not compared.
    """

    def __init__(self, module: nn.Module) -> None:
        self.submodules = list(module.modules())[1:]
        self.tensors = [*module.parameters(), *module.buffers()]
        self.dicts: list[dict[str, Any]] = []
        for part in (module, *self.submodules):
            attributes = vars(part)
            registries = attributes["_modules"], attributes["_parameters"], attributes["_buffers"]
            # empty dicts are left out, for speed: the standard classes do not use an entry that is added to them later
            self.dicts += [attributes, *(registry for registry in registries if registry)]
        self.parts, self.layouts = self._parts(), self._layouts()

    def is_current(self) -> bool:
        parts = self._parts()
        # compared by identity, for speed: an equal but new object counts as a change, so the result is computed again
        has_same_parts = len(parts) == len(self.parts) and all(map(is_, parts, self.parts))
        return has_same_parts and self._layouts() == self.layouts

    def _parts(self) -> list[Any]:
        attributes = [value for values in self.dicts for value in values.values()]
        n_hooks = RemovableHandle.next_id  # the number of hooks of all modules so far
        return [*attributes, *map(type, self.submodules), n_hooks]

    def _layouts(self) -> list[tuple[object, ...]]:
        return [(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) for tensor in self.tensors]


COMPUTED: WeakKeyDictionary[nn.Module, tuple[Snapshot, KernelModule]] = WeakKeyDictionary()
"""For each encoder or decoder: its latest `KernelModule`, and a snapshot of the module when they were computed."""


def struct_array(struct: Any, elements: Sequence[ctypes.Structure]) -> Any:
    """Return a C array of type `struct`."""
    return (struct * len(elements))(*elements)
