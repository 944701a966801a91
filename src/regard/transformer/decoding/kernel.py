"""Incremental decoding by C kernels on the CPU: each step computes one new token of every row through all blocks.

A row is one target text of the batch. With few rows, the arithmetic of a step takes less time than calling a PyTorch
function for each operation. The kernel, `kernels/decoding_step.c`, computes the same numbers as `Decoder.forward`.
When a search reorders the rows, the cached keys and values are not moved in memory. Instead, a table says for each
token of each row in which row of the cache the token's keys and values are.
"""

import ctypes
from collections.abc import Sequence
from math import ceil

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.attention.layers.key_value import KeyValue
from regard.attention.masks import Padding
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.kernels.library import c_function, check_arguments
from regard.kernels.structs import fields_of
from regard.kernels.threads import run_on_threads
from regard.transformer.decoding.parameters import (
    EmbeddingParameters,
    KernelModule,
    LinearParameters,
    StackParameters,
    struct_array,
)

MOST_ROWS_AT_ONCE = 32
"""The most target texts that a thread computes together, so that their vectors fit into the processor's cache."""

PRODUCTS_PER_THREAD = 2**18
"""The output projection uses one thread for each 2^18 multiplications, but at most as many threads as PyTorch.

For fewer multiplications, waking a thread takes longer than it saves.
"""


class TokenVectors(ctypes.Structure):
    """The C struct `TokenVectors` of kernels/blocks.h: keys or values."""

    _fields_ = fields_of("blocks.h", "TokenVectors")

    @classmethod
    def of(cls, tensor: Float[Tensor, "rows heads tokens d_head"]) -> "TokenVectors":
        row_stride, head_stride, token_stride, _ = tensor.stride()
        return cls(vectors=tensor.data_ptr(), row_stride=row_stride, head_stride=head_stride, token_stride=token_stride)


class StepArguments(ctypes.Structure):
    """The C struct `StepArguments` of decoding_step.c."""

    _fields_ = fields_of(
        "decoding_step.c",
        "StepArguments",
        Stack=StackParameters,
        Embedding=EmbeddingParameters,
        TokenVectors=TokenVectors,
    )
    _anonymous_ = ("stack",)


class ProjectionArguments(ctypes.Structure):
    """The C struct `ProjectionArguments` of project_logits.c."""

    _fields_ = fields_of("project_logits.c", "ProjectionArguments", Linear=LinearParameters)


class CompiledDecoding:
    """The target texts of a batch, one in each row, to which the C kernels add one token after the other.

    Args:
        decoder: the decoder that computes each step.
        memory: for each block, the cross-attention keys and values of the sources.
        lengths: the number of tokens of each source before its padding; None = no padding.
        most_rows: the largest number of rows, at least the number of sources.
        most_tokens: the largest number of tokens of a row, BOS counted.
    """

    def __init__(
        self,
        decoder: KernelModule,
        memory: tuple[KeyValue, ...],
        lengths: Int[Tensor, " sources"] | None,
        *,
        most_rows: int,
        most_tokens: int,
    ) -> None:
        self.decoder, self.memory = decoder, memory
        self.lengths = None if lengths is None else lengths.long().contiguous()
        self.n_threads = min(torch.get_num_threads(), most_rows)
        self._allocate(most_rows, most_tokens)
        self.arguments = self._step_arguments(most_rows, most_tokens)
        self.projection = ProjectionArguments(
            layer=decoder.projection, x=self.x.data_ptr(), logits=self.all_logits.data_ptr()
        )
        self._set_rows(self.arguments.sources)

    def _allocate(self, most_rows: int, most_tokens: int) -> None:
        """Allocate all memory that the kernels write; decoding_step.c describes each part."""
        stack, memory = self.decoder.stack, self.memory[0]
        self.newest, self.parents = (ctypes.c_int64 * most_rows)(), (ctypes.c_int64 * most_rows)()
        # two tables: a step reads one and writes the other. A row has its source, and then a number for each token
        row_size = 1 + most_tokens
        self.tables = (ctypes.c_int64 * (2 * most_rows * row_size))()
        for source in range(len(memory.key)):  # before the first step, there is one row for each source
            self.tables[source * row_size] = source
        longest = max(most_tokens, memory.n_tokens)
        self.scratch_numbers = stack.scratch_numbers(min(most_rows, MOST_ROWS_AT_ONCE), longest)
        allocate = memory.key.new_empty  # float32 on the CPU
        self.x = allocate(most_rows * stack.d_model)
        self.queries = allocate(most_rows * stack.n_blocks * stack.d_model)
        self.all_logits = allocate(most_rows, self.decoder.projection.n_out)
        self.cache = allocate(most_rows * stack.n_blocks * 2 * stack.key_heads * most_tokens * stack.d_head)
        self.scratch = allocate(self.n_threads * self.scratch_numbers)

    def _step_arguments(self, most_rows: int, most_tokens: int) -> StepArguments:
        arguments = StepArguments(
            stack=self.decoder.stack,
            embedding=self.decoder.embedding,
            newest=ctypes.addressof(self.newest),
            parents=ctypes.addressof(self.parents),
            most_rows=most_rows,
            most_tokens=most_tokens,
            buffer=self.cache.data_ptr(),
            tables=ctypes.addressof(self.tables),
            source_keys=struct_array(TokenVectors, [TokenVectors.of(block.key) for block in self.memory]),
            source_values=struct_array(TokenVectors, [TokenVectors.of(block.value) for block in self.memory]),
            sources=len(self.memory[0].key),
            source_tokens=self.memory[0].n_tokens,
            lengths=None if self.lengths is None else self.lengths.data_ptr(),
            x=self.x.data_ptr(),
            queries=self.queries.data_ptr(),
            scratch=self.scratch.data_ptr(),
            scratch_numbers=self.scratch_numbers,
        )
        rotary = self.decoder.rotary
        if rotary is not None:
            d_head = self.decoder.stack.d_head
            d_rotary = d_head if rotary.d_rotary is None else rotary.d_rotary
            self.cosines, self.sines = rotary.cos_and_sin(torch.arange(most_tokens), d_rotary, self.x)
            arguments.cosines, arguments.sines = self.cosines.data_ptr(), self.sines.data_ptr()
            arguments.pairs = d_rotary // 2
            if rotary.pairing == "halves":  # pair p is the numbers p and p + pairs
                arguments.pair_stride, arguments.pair_distance = 1, arguments.pairs
            else:  # pair p is the numbers 2p and 2p + 1
                arguments.pair_stride, arguments.pair_distance = 2, 1
        return arguments

    def read(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        """Add a token to each row; the attribute `logits` then has the logits of each row's next token.

        Args:
            tokens: the id of each row's new token.
            parents: for each token, the index (before this call) of the row that it continues. An index may occur
                several times or not at all. Before the first call, there is one row for each source, without tokens.

        Raises:
            ValueError: the numbers of tokens and parents differ, or a parent does not exist.
        """
        n_rows, arguments = len(tokens), self.arguments
        if len(parents) != n_rows or max(parents) >= arguments.rows:
            raise ValueError(
                f"got {n_rows} tokens and the parents {list(parents)} for {arguments.rows} rows; give each token the "
                "index of the row that it continues."
            )
        if n_rows != arguments.rows:
            self._set_rows(n_rows)
        self.newest[:n_rows], self.parents[:n_rows] = list(tokens), list(parents)
        arguments.tokens += 1
        # the counters that the kernels' threads share
        arguments.next_row = arguments.threads = self.projection.next_logit = 0
        check_arguments("regard_decoding_step", arguments)
        run_on_threads(c_function("regard_decoding_step"), arguments, min(self.n_threads, n_rows))
        check_arguments("regard_project_logits", self.projection)
        run_on_threads(c_function("regard_project_logits"), self.projection, self.n_projection_threads)

    def _set_rows(self, n_rows: int) -> None:
        self.arguments.rows = self.projection.rows = n_rows
        n_threads = min(self.n_threads, n_rows)
        # each thread computes groups of about equal size, with at most MOST_ROWS_AT_ONCE rows
        groups_per_thread = ceil(n_rows / (n_threads * MOST_ROWS_AT_ONCE))
        self.arguments.rows_at_once = ceil(n_rows / (n_threads * groups_per_thread))
        n_products = n_rows * self.decoder.projection.n_in * self.decoder.projection.n_out
        self.n_projection_threads = min(torch.get_num_threads(), ceil(n_products / PRODUCTS_PER_THREAD))
        self.logits: Float[Tensor, "rows vocabulary"] = self.all_logits[:n_rows]

    @property
    def cross(self) -> tuple[Pattern, ...]:
        """For each block, the cross-attention weights of the newest tokens; each row of the batch has one query."""
        arguments, stack = self.arguments, self.decoder.stack
        first_row = arguments.tokens % 2 * arguments.most_rows  # the first row of the latest step's table in `tables`
        row_size = 1 + arguments.most_tokens
        indices = [self.tables[(first_row + row) * row_size] for row in range(arguments.rows)]
        sources = torch.tensor(indices, device=self.x.device)
        mask = None if self.lengths is None else Padding(self.lengths[sources])
        queries = rearrange(
            self.queries[: stack.n_blocks * arguments.rows * stack.d_model].clone(),
            "(blocks rows heads d_head) -> blocks rows heads 1 d_head",
            blocks=stack.n_blocks,
            rows=arguments.rows,
            heads=stack.heads,
        )
        memory = [block.select(sources) for block in self.memory]  # a source for each row
        return tuple(
            Pattern(Call.of(queries_of_block, key_value.key, key_value.value, ScaledDot(), mask, Softmax()))
            for queries_of_block, key_value in zip(queries, memory, strict=True)
        )
