"""The incremental decoding step as one call of a C kernel on the CPU: one new token of every row through all blocks.

A row is one target text of the batch. With few rows, the arithmetic of a step takes less time than calling a PyTorch
function for each operation. The kernel, `kernels/decoding_step.c`, computes the same numbers as `DecoderBlock.forward`
if `structure_reason` and `sources_reason` return None. Each thread computes some rows in all blocks. When a search
reorders the rows, cached keys and values are not moved: a table gives the kernel the buffer row of each token.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue
from regard.kernels.library import FLOATS, INTEGERS, check_arguments, function
from regard.kernels.threads import run_on_threads
from regard.transformer.decoding.cache import MIN_BUFFER_TOKENS, BlockCache, BufferCache, TokenBuffer
from regard.transformer.decoding.parameters import LinearParameters, Stack, StackParameters, struct_array

MOST_ROWS_AT_ONCE = 32
"""The most target texts that a thread computes together, so that their vectors fit into the processor's cache."""

PRODUCTS_OF_A_THREAD = 2**18
"""A thread of the output projection computes at least about this many products; with fewer it is not worth waking."""

Vectors = Float[Tensor, "rows 1 d_model"]
"""One vector for each row of the batch: the embedding or the hidden state of its newest token."""

Queries = Float[Tensor, "blocks rows d_model"]
"""The cross-attention queries of the newest tokens in each decoder block; the queries of all heads are concatenated."""


class VectorLayout(ctypes.Structure):
    """The C struct `Vectors` of kernels/decoding_step.c: a pointer to keys or values, and their strides."""

    _fields_ = (
        ("vectors", FLOATS),
        ("row_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
        ("token_stride", ctypes.c_int64),
    )

    @classmethod
    def of(cls, tensor: Float[Tensor, "rows heads tokens d_head"]) -> "VectorLayout":
        return cls(tensor.data_ptr(), *tensor.stride()[:3])


class StepArguments(ctypes.Structure):
    """The C struct `StepArguments`: all arguments of a decoding step, described field by field in decoding_step.c."""

    _fields_ = (
        ("stack", Stack),
        ("rows", ctypes.c_int64),
        ("tokens", ctypes.c_int64),
        ("buffer", FLOATS),
        ("buffer_tokens", ctypes.c_int64),
        ("n_buffer_rows", ctypes.c_int64),
        ("buffer_rows", INTEGERS),
        ("row_stride", ctypes.c_int64),
        ("token_stride", ctypes.c_int64),
        ("source_keys", ctypes.POINTER(VectorLayout)),
        ("source_values", ctypes.POINTER(VectorLayout)),
        ("sources", ctypes.c_int64),
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
    _anonymous_ = ("stack",)


class ProjectionArguments(ctypes.Structure):
    """The C struct `ProjectionArguments`: all arguments of the output projection, described in project_logits.c."""

    _fields_ = (
        ("layer", LinearParameters),
        ("rows", ctypes.c_int64),
        ("x", FLOATS),
        ("logits", FLOATS),
        ("next_logit", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """The encoded sources of a batch, and which source each row (target text) reads.

    Attributes:
        memory: for each block, the cross-attention keys and values of the sources.
        source_of_row: for each target row, the index of the source that it reads.
        lengths: for each target row, the number of tokens of its source before the padding; None = no padding.
    """

    memory: tuple[KeyValue, ...]
    source_of_row: Int[Tensor, " rows"]
    lengths: Int[Tensor, " rows"] | None

    @classmethod
    def of(
        cls, memory: tuple[KeyValue, ...], lengths: Int[Tensor, " sources"] | None, rows_per_source: int = 1
    ) -> "SourceRows":
        """Return a `SourceRows` in which each source is read by `rows_per_source` consecutive target rows.

        Args:
            memory: for each decoder block, the cross-attention keys and values of the sources.
            lengths: the number of tokens of each source before its padding; None = no padding.
        """
        key = memory[0].key
        source_of_row = torch.arange(len(key), device=key.device).repeat_interleave(rows_per_source)
        if lengths is None or not bool((lengths < key.shape[2]).any()):
            return cls(memory, source_of_row, None)
        return cls(memory, source_of_row, lengths.long().clamp(max=key.shape[2])[source_of_row])

    @property
    def n_rows(self) -> int:
        """The number of rows, each of which is one target text."""
        return self.source_of_row.shape[0]

    @property
    def n_sources(self) -> int:
        return self.memory[0].key.shape[0]

    @property
    def n_tokens(self) -> int:
        """The number of tokens in the longest source."""
        return self.memory[0].n_tokens


@dataclass(frozen=True, slots=True, eq=False)
class CompiledDecoder:
    """A decoder and the encoded sources of a batch, as arguments of the C kernel.

    Attributes:
        decoder: the arguments that do not depend on the sources.
        sources: the sources, and which source each target row reads.
        arguments: the kernel's arguments; those that differ from step to step are not set.
        source_keys: for each block, a pointer to the sources' keys, and their strides.
        source_values: for each block, a pointer to the sources' values, and their strides.
    """

    decoder: StackParameters
    sources: SourceRows
    arguments: StepArguments
    source_keys: "ctypes.Array[VectorLayout]"
    source_values: "ctypes.Array[VectorLayout]"

    @classmethod
    def of(cls, decoder: StackParameters, sources: SourceRows) -> "CompiledDecoder | None":
        """Return a decoder and its sources as arguments of the C kernel; None if it cannot read the sources."""
        return None if sources_reason(sources) is not None else cls.joined(decoder, sources)

    @classmethod
    def joined(cls, decoder: StackParameters, sources: SourceRows) -> "CompiledDecoder":
        """Return the arguments of the C kernel for a decoder and sources that the kernel supports."""
        source_keys = struct_array(VectorLayout, [block.key for block in sources.memory])
        source_values = struct_array(VectorLayout, [block.value for block in sources.memory])
        arguments = StepArguments(stack=decoder.stack, source_keys=source_keys, source_values=source_values)
        arguments.sources, arguments.source_tokens = sources.n_sources, sources.n_tokens
        arguments.rows, arguments.source_of_row = sources.n_rows, sources.source_of_row.data_ptr()
        arguments.lengths = None if sources.lengths is None else sources.lengths.data_ptr()
        return cls(decoder, sources, arguments, source_keys, source_values)

    def with_sources(self, sources: SourceRows) -> "CompiledDecoder":
        """Return the arguments for the same decoder with other sources."""
        return CompiledDecoder.joined(self.decoder, sources)

    def step(self, x: Vectors, cache: BlockCache | BufferCache | None) -> tuple[Vectors, BufferCache, Queries]:
        """Compute the newest token of each row through all decoder blocks.

        Args:
            x: the embeddings of the newest tokens; the hidden states of the result are written into this tensor.
            cache: the keys and values of the earlier tokens; None = there are no earlier tokens.

        Returns:
            The hidden states of the newest tokens, for the output projection; the cache with the newest tokens
            appended; and the cross-attention queries of each block.

        Raises:
            ValueError: the numbers of rows of x, of the cache and of `sources` differ.
        """
        n_rows = self.sources.n_rows
        if x.shape[0] != n_rows or (cache is not None and n_rows != cache.rows):
            raise ValueError(
                f"got {x.shape[0]} rows of tokens for a state of {n_rows} rows; give one token for each row, or select "
                "some rows with state.select."
            )
        cache = self.new_cache(x) if cache is None else cache.with_next_token()
        queries = x.new_empty(self.arguments.n_blocks, n_rows, self.arguments.d_model)
        self.run(x, cache, queries)
        return x, cache, queries

    def new_cache(self, x: Vectors) -> BufferCache:
        """Return a cache with room for a target a little longer than the longest source, and one token, not set yet."""
        room, sizes = self.sources.n_tokens + MIN_BUFFER_TOKENS, self.arguments
        vectors = x.new_empty(x.shape[0], sizes.n_blocks, 2, sizes.key_heads, room, sizes.d_head)
        return BufferCache(TokenBuffer(vectors, n_written=1), n_tokens=1)

    def run(self, x: Vectors, cache: BufferCache, queries: Queries) -> None:
        """Call the C kernel, which runs the newest token of each row through all decoder blocks.

        Args:
            x: the embeddings of the newest tokens; the kernel replaces them by the decoder's output.
            cache: the keys and values of all tokens; the kernel writes the vectors of the last token of each row.
            queries: the kernel writes the cross-attention queries of the newest tokens into this tensor.
        """
        row_table, buffer, n_rows = cache.row_table, cache.buffer.vectors, x.shape[0]
        threads = min(torch.get_num_threads(), n_rows)
        rows_at_once = ceil(n_rows / (threads * ceil(n_rows / (threads * MOST_ROWS_AT_ONCE))))
        most_tokens = max(cache.n_tokens, self.sources.n_tokens)
        scratch = x.new_empty(threads, self.arguments.stack.scratch_numbers(rows_at_once, most_tokens))
        arguments = StepArguments.from_buffer_copy(self.arguments)
        arguments.buffer = buffer.data_ptr()
        arguments.n_buffer_rows, arguments.buffer_tokens = buffer.shape[0], buffer.shape[4]
        arguments.tokens, arguments.buffer_rows = cache.n_tokens, row_table.data_ptr()
        arguments.row_stride, arguments.token_stride = row_table.stride()
        arguments.x, arguments.queries, arguments.scratch = x.data_ptr(), queries.data_ptr(), scratch.data_ptr()
        arguments.scratch_numbers, arguments.rows_at_once = scratch.shape[1], rows_at_once
        if self.decoder.rotary is not None:
            d_rotary, position = self.decoder.rotary.d_rotary or arguments.d_head, torch.tensor([cache.n_tokens - 1])
            cosines, sines = self.decoder.rotary.cos_and_sin(position, d_rotary, x)
            arguments.cosines, arguments.sines, arguments.pairs = cosines.data_ptr(), sines.data_ptr(), d_rotary // 2
            halves = self.decoder.rotary.pairing == "halves"
            arguments.pair_stride, arguments.pair_distance = (1, d_rotary // 2) if halves else (2, 1)
        check_arguments("regard_decoding_step", arguments)
        run_on_threads(regard_decoding_step(), arguments, threads)

    def logits(self, x: Vectors) -> Float[Tensor, "rows 1 vocabulary"]:
        """Return the output projection of the hidden states that `step` returned."""
        layer, n_rows = self.decoder.projection, x.shape[0]
        logits = x.new_empty(n_rows, 1, layer.n_out)
        arguments = ProjectionArguments(layer=layer, rows=n_rows, x=x.data_ptr(), logits=logits.data_ptr())
        check_arguments("regard_project_logits", arguments)
        threads = min(torch.get_num_threads(), ceil(n_rows * layer.n_in * layer.n_out / PRODUCTS_OF_A_THREAD))
        run_on_threads(regard_project_logits(), arguments, threads)
        return logits


def sources_reason(sources: SourceRows) -> str | None:
    """Return the reason why the C kernel cannot read these sources; None if the kernel can read them."""
    tensors = [tensor for block in sources.memory for tensor in (block.key, block.value)]
    if any(tensor.dtype != torch.float32 or tensor.stride(-1) != 1 for tensor in tensors):
        return "source keys and values must be float32 with contiguous vectors"
    if regard_decoding_step() is None:
        return "no C kernels were built when regard was installed"
    return None


@cache
def regard_decoding_step() -> Any | None:
    """Return the C function of this name, which takes a pointer to `StepArguments`; None if no kernels were built."""
    return function("regard_decoding_step", ctypes.c_void_p)


@cache
def regard_project_logits() -> Any | None:
    """Return the C function of this name, which takes a pointer to `ProjectionArguments`; None without kernels."""
    return function("regard_project_logits", ctypes.c_void_p)
