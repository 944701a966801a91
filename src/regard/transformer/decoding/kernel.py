"""The incremental decoding step as one call of a CPU kernel: one token more in every row, through all blocks.

For a few rows of one token the arithmetic takes less time than calling PyTorch for each operation. The kernel,
`kernels/decoding_step.c`, computes what `DecoderBlock.forward` computes, for decoders that `unsupported_reason` finds
nothing against; the modules take every other step. Each thread takes some rows through the whole decoder. Cached tokens
stay where they were written when search reorders the rows: a table tells the kernel in which row each token is.
"""

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.layers.key_value import KeyValue
from regard.attention.positions.rotary import Rotary
from regard.kernels.library import FLOATS, INTEGERS, function
from regard.kernels.threads import run_on_threads
from regard.transformer.block import DecoderBlock
from regard.transformer.decoding.cache import SPARE_TOKENS, BlockCache, BufferCache, TokenBuffer
from regard.transformer.decoding.supported import WIDTH_MULTIPLE, linear_layers, norms, structure_reason
from regard.transformer.feed_forward import ACTIVATIONS

MOST_ROWS_AT_ONCE = 32
"""The most rows that a thread takes together, so that their vectors stay in its cache; 16 to 160 are as fast."""

Vectors = Float[Tensor, "rows d_model"]
"""The vector of the newest token of each row."""

Queries = tuple[Float[Tensor, "sources heads queries d_head"], ...]
"""Each block's queries to the sources."""


class LinearParameters(ctypes.Structure):
    """The struct `Linear` of decoding_step.c."""

    _fields_ = (("weight", FLOATS), ("bias", FLOATS), ("n_in", ctypes.c_int64), ("n_out", ctypes.c_int64))

    @classmethod
    def of(cls, layer: nn.Linear) -> "LinearParameters":
        """Return the addresses of a layer's parameters."""
        return cls(layer.weight.data_ptr(), layer.bias.data_ptr(), layer.in_features, layer.out_features)


class NormParameters(ctypes.Structure):
    """The struct `Norm` of decoding_step.c."""

    _fields_ = (("weight", FLOATS), ("bias", FLOATS), ("eps", ctypes.c_float))

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> "NormParameters":
        """Return the addresses of a norm's parameters."""
        return cls(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps)


class BlockParameters(ctypes.Structure):
    """The struct `Block` of decoding_step.c."""

    _fields_ = (
        ("query", LinearParameters),
        ("key", LinearParameters),
        ("value", LinearParameters),
        ("self_attention_output", LinearParameters),
        ("cross_query", LinearParameters),
        ("cross_attention_output", LinearParameters),
        ("widen", LinearParameters),
        ("narrow", LinearParameters),
        ("self_attention_norm", NormParameters),
        ("cross_attention_norm", NormParameters),
        ("feed_forward_norm", NormParameters),
    )

    @classmethod
    def of(cls, block: DecoderBlock) -> "BlockParameters":
        """Return the addresses of a block's parameters."""
        return cls(*map(LinearParameters.of, linear_layers(block)), *map(NormParameters.of, norms(block)))


class VectorLayout(ctypes.Structure):
    """The struct `Vectors` of decoding_step.c."""

    _fields_ = (
        ("vectors", FLOATS),
        ("row_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
        ("token_stride", ctypes.c_int64),
    )

    @classmethod
    def of(cls, tensor: Float[Tensor, "rows heads tokens d_head"]) -> "VectorLayout":
        """Return a tensor's address and strides."""
        return cls(tensor.data_ptr(), *tensor.stride()[:3])


class StepArguments(ctypes.Structure):
    """The struct of the same name in decoding_step.c, field by field."""

    _fields_ = (
        ("decoder", ctypes.POINTER(BlockParameters)),
        ("blocks", ctypes.c_int64),
        ("d_model", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("key_heads", ctypes.c_int64),
        ("d_head", ctypes.c_int64),
        ("activation", ctypes.c_int64),
        ("gated", ctypes.c_int64),
        ("norm_first", ctypes.c_int64),
        ("norm", NormParameters),
        ("rows", ctypes.c_int64),
        ("tokens", ctypes.c_int64),
        ("buffer", FLOATS),
        ("buffer_tokens", ctypes.c_int64),
        ("buffer_rows", INTEGERS),
        ("row_stride", ctypes.c_int64),
        ("token_stride", ctypes.c_int64),
        ("source_keys", ctypes.POINTER(VectorLayout)),
        ("source_values", ctypes.POINTER(VectorLayout)),
        ("source_tokens", ctypes.c_int64),
        ("source_of_row", INTEGERS),
        ("lengths", INTEGERS),
        ("cosines", FLOATS),
        ("sines", FLOATS),
        ("pairs", ctypes.c_int64),
        ("pair_stride", ctypes.c_int64),
        ("pair_distance", ctypes.c_int64),
        ("x", FLOATS),
        ("queries", FLOATS),
        ("scratch", FLOATS),
        ("scratch_numbers", ctypes.c_int64),
        ("rows_at_once", ctypes.c_int64),
        ("next_row", ctypes.c_int64),
        ("threads", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """The sources, and which row of the target reads which.

    Attributes:
        memory: the sources as keys and values of each block.
        source_of_row: which source each row reads.
        lengths: for each row, how many tokens of its source are no padding; None = all.
    """

    memory: tuple[KeyValue, ...]
    source_of_row: Int[Tensor, " rows"]
    lengths: Int[Tensor, " rows"] | None

    @classmethod
    def of(
        cls, memory: tuple[KeyValue, ...], lengths: Int[Tensor, " sources"] | None, rows_per_source: int = 1
    ) -> "SourceRows":
        """Return sources of which `rows_per_source` consecutive rows read each."""
        key = memory[0].key
        source_of_row = torch.arange(len(key), device=key.device).repeat_interleave(rows_per_source)
        if lengths is None or not bool((lengths < key.shape[2]).any()):
            return cls(memory, source_of_row, None)
        return cls(memory, source_of_row, lengths.long().clamp(max=key.shape[2])[source_of_row])

    @property
    def n_tokens(self) -> int:
        """How many tokens the longest source has."""
        return self.memory[0].n_tokens


@dataclass(frozen=True, slots=True, eq=False)
class CompiledDecoder:
    """A decoder and the sources that its rows read, as the kernel takes them.

    Attributes:
        arguments: those that are the same in every step: the decoder's sizes and addresses.
        blocks: the addresses of the blocks' parameters.
        tensors: the parameters at these addresses, which stay in memory when a module is given others.
        rotary: the positions of self-attention, or None.
        sources: the sources of the rows.
        source_keys: the addresses of the sources' keys, block by block.
        source_values: the addresses of their values.
    """

    arguments: StepArguments
    blocks: "ctypes.Array[BlockParameters]"
    tensors: tuple[Tensor, ...]
    rotary: Rotary | None
    sources: SourceRows
    source_keys: "ctypes.Array[VectorLayout]"
    source_values: "ctypes.Array[VectorLayout]"

    @classmethod
    def of(cls, decoder: nn.Module, sources: SourceRows) -> "CompiledDecoder | None":
        """Return the decoder for the kernel, or None if the kernel cannot take its steps."""
        if unsupported_reason(decoder, sources) is not None:
            return None
        blocks = list(cast("Iterable[DecoderBlock]", decoder.blocks))
        attention, activation = blocks[0].self_attention, ACTIVATIONS[blocks[0].feed_forward.activation]
        arguments = StepArguments(
            blocks=len(blocks),
            d_model=attention.d_model,
            heads=attention.n_heads,
            key_heads=attention.n_key_heads,
            d_head=attention.d_head,
            activation=activation.kernel,
            gated=activation.gated,
            norm_first=blocks[0].norm_first,
            norm=NormParameters() if decoder.norm is None else NormParameters.of(cast("nn.LayerNorm", decoder.norm)),
        )
        parameters = struct_array(BlockParameters, blocks)
        tensors = tuple(parameter.detach() for parameter in decoder.parameters())
        return cls(arguments, parameters, tensors, attention.positions, sources, *layouts(sources))

    def with_sources(self, sources: SourceRows) -> "CompiledDecoder":
        """Return the decoder for rows that read other sources."""
        return CompiledDecoder(self.arguments, self.blocks, self.tensors, self.rotary, sources, *layouts(sources))

    def step(self, x: Vectors, cache: BlockCache | BufferCache | None) -> tuple[Vectors, BufferCache, Queries]:
        """Take the newest token of each row through all blocks.

        Args:
            x: the tokens' embeddings, which are overwritten.
            cache: the tokens before; None = there are none.

        Returns:
            The vectors that the output projection takes; the cache with the new tokens; each block's query vectors
            of cross-attention.

        Raises:
            ValueError: the number of rows is not that of the sources.
        """
        n_rows, d_head = len(self.sources.source_of_row), self.arguments.d_head
        if len(x) != n_rows or (cache is not None and len(x) != cache.rows):
            raise ValueError(
                f"got {len(x)} rows of tokens for a state of {n_rows}; each row of a state goes on by one token, and "
                "state.select takes some rows of it."
            )
        cache = self.new_cache(x) if cache is None else cache.with_next_token()
        queries = x.new_empty(len(self.blocks), n_rows, x.shape[1])
        self.run(x, cache, queries)
        n_sources = len(self.sources.memory[0].key)
        by_source = queries.view(len(queries), n_sources, n_rows // n_sources, -1, d_head).transpose(2, 3)
        return x, cache, by_source.unbind()

    def new_cache(self, x: Vectors) -> BufferCache:
        """Return a cache of one token, which is still to be written, with room for a translation's."""
        room, d_head = self.sources.n_tokens + SPARE_TOKENS, self.arguments.d_head
        vectors = x.new_empty(len(x), len(self.blocks), 2, self.arguments.key_heads, room, d_head)
        return BufferCache(TokenBuffer(vectors, n_written=1), n_tokens=1)

    def run(self, x: Vectors, cache: BufferCache, queries: Float[Tensor, "blocks rows d_model"]) -> None:
        """Call the kernel, which overwrites x and the queries and writes the newest tokens into the cache."""
        row_table, sources, threads = cache.row_table, self.sources, min(torch.get_num_threads(), len(x))
        rows_at_once = ceil(len(x) / (threads * ceil(len(x) / (threads * MOST_ROWS_AT_ONCE))))
        scratch = x.new_empty(threads, self.scratch_numbers(rows_at_once, cache.n_tokens))
        arguments = StepArguments.from_buffer_copy(self.arguments)
        arguments.decoder = self.blocks
        arguments.rows, arguments.tokens = len(x), cache.n_tokens
        arguments.buffer, arguments.buffer_tokens = cache.buffer.vectors.data_ptr(), cache.buffer.vectors.shape[4]
        arguments.buffer_rows = row_table.data_ptr()
        arguments.row_stride, arguments.token_stride = row_table.stride()
        arguments.source_keys, arguments.source_values = self.source_keys, self.source_values
        arguments.source_tokens, arguments.source_of_row = sources.n_tokens, sources.source_of_row.data_ptr()
        arguments.lengths = None if sources.lengths is None else sources.lengths.data_ptr()
        arguments.x, arguments.queries, arguments.scratch = x.data_ptr(), queries.data_ptr(), scratch.data_ptr()
        arguments.scratch_numbers, arguments.rows_at_once = scratch.shape[1], rows_at_once
        if self.rotary is not None:
            d_rotary, position = self.rotary.d_rotary or arguments.d_head, torch.tensor([cache.n_tokens - 1])
            cosines, sines = self.rotary.cos_and_sin(position, d_rotary, x)
            arguments.cosines, arguments.sines, arguments.pairs = cosines.data_ptr(), sines.data_ptr(), d_rotary // 2
            halves = self.rotary.pairing == "halves"
            arguments.pair_stride, arguments.pair_distance = (1, d_rotary // 2) if halves else (2, 1)
        run_on_threads(regard_decoding_step(), arguments, threads)

    def scratch_numbers(self, rows: int, tokens: int) -> int:
        """Return how many numbers of scratch memory a thread needs for `rows` rows at once."""
        d_key, d_hidden = self.arguments.key_heads * self.arguments.d_head, self.blocks[0].widen.n_out
        n_vectors = 4 * self.arguments.d_model + 2 * d_key + d_hidden
        return int(rows * n_vectors + max(tokens, self.sources.n_tokens) + WIDTH_MULTIPLE)


def layouts(sources: SourceRows) -> tuple["ctypes.Array[VectorLayout]", "ctypes.Array[VectorLayout]"]:
    """Return the addresses of the sources' keys and of their values, block by block."""
    memory = sources.memory
    return struct_array(VectorLayout, [m.key for m in memory]), struct_array(VectorLayout, [m.value for m in memory])


def struct_array(struct: Any, objects: Sequence[Any]) -> Any:
    """Return a C array with one struct for each object."""
    return (struct * len(objects))(*map(struct.of, objects))


def unsupported_reason(decoder: nn.Module, sources: SourceRows) -> str | None:
    """Return why the kernel cannot take the steps of a decoder, or None if it can."""
    if (reason := structure_reason(decoder)) is not None:
        return reason
    tensors = [tensor for block in sources.memory for tensor in (block.key, block.value)]
    if any(tensor.dtype != torch.float32 or tensor.stride(-1) != 1 for tensor in tensors):
        return "sources are float32, the numbers of a vector side by side"
    if regard_decoding_step() is None:
        return "no C kernels were built when regard was installed"
    return None


@cache
def regard_decoding_step() -> Any | None:
    """Return the compiled function, which takes `StepArguments` by reference, or None where no kernels were built."""
    return function("regard_decoding_step", ctypes.c_void_p)
