"""The newest token of each row through all blocks of a decoder, in one call of a kernel.

For a few rows of one token the sums take less time than it takes to call PyTorch for each of them. So all of them are
one call, in which each thread takes some rows through the whole decoder. The tokens before stay where they were written
when rows change places: a table says where, and the kernel reads them there.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import ceil
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels import linear
from regard.kernels.library import FLOATS, INTEGERS, KERNELS, compiled
from regard.kernels.linear import Linear, Projection
from regard.kernels.threads import run_on_threads
from regard.transformer.decoding import unwrapped_step as bare
from regard.transformer.decoding.cache import Past
from regard.transformer.decoding.unwrapped_step import (
    Around,
    BareBlock,
    BareDecoder,
    Rows,
    SourceQueries,
    Sources,
    by_source,
)

SOURCE = KERNELS / "decoding_step.c"
WIDE = linear.WIDE

MOST_AT_ONCE = 32
"""Rows that a thread takes at most: what it makes of them is small then. Any number from 16 to 160 is as fast."""

PLAIN = {"relu": 0, "gelu": 1, "gelu_tanh": 2, "swish": 3, "silu": 3, "mish": 4, "squared_relu": 5, "tanh": 6}
GATES = {"reglu": 0, "geglu": 1, "swiglu": 3, "glu": 7, "bilinear": 8}
"""What the kernel calls what bends hidden numbers, or their gates."""


class Norm(ctypes.Structure):
    """The struct of the same name in decoding_step.c."""

    _fields_ = (("weight", FLOATS), ("bias", FLOATS), ("eps", ctypes.c_float))

    @classmethod
    def of(cls, norm: bare.Norm) -> "Norm":
        """Where a norm's tensors lie."""
        return cls(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps)


class Block(ctypes.Structure):
    """The struct of the same name in decoding_step.c."""

    _fields_ = (
        ("query", Projection),
        ("key", Projection),
        ("value", Projection),
        ("own_output", Projection),
        ("source_query", Projection),
        ("source_output", Projection),
        ("widen", Projection),
        ("narrow", Projection),
        ("own_norm", Norm),
        ("source_norm", Norm),
        ("feed_forward_norm", Norm),
    )

    @classmethod
    def of(cls, block: BareBlock) -> "Block":
        """Where a block's tensors lie."""
        norms = (Norm.of(around.norm) for around in arounds(block))
        return cls(*(each.projection for each in projections(block)), *norms)


class Vectors(ctypes.Structure):
    """The struct of the same name in decoding_step.c."""

    _fields_ = (
        ("numbers", FLOATS),
        ("place", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("token", ctypes.c_int64),
    )

    @classmethod
    def of(cls, tensor: Float[Tensor, "places heads tokens d_head"]) -> "Vectors":
        """Where the vectors of a tensor lie."""
        place, head, token, _ = tensor.stride()
        return cls(tensor.data_ptr(), place, head, token)


class Call(ctypes.Structure):
    """What `regard_newest` is given: the struct of the same name in decoding_step.c, field by field."""

    _fields_ = (
        ("decoder", ctypes.POINTER(Block)),
        ("blocks", ctypes.c_int64),
        ("d_model", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("key_heads", ctypes.c_int64),
        ("d_head", ctypes.c_int64),
        ("activation", ctypes.c_int64),
        ("gated", ctypes.c_int64),
        ("norm_before", ctypes.c_int64),
        ("norm", Norm),
        ("rows", ctypes.c_int64),
        ("tokens", ctypes.c_int64),
        ("room", FLOATS),
        ("room_tokens", ctypes.c_int64),
        ("places", INTEGERS),
        ("places_row", ctypes.c_int64),
        ("places_token", ctypes.c_int64),
        ("source_keys", ctypes.POINTER(Vectors)),
        ("source_values", ctypes.POINTER(Vectors)),
        ("source_tokens", ctypes.c_int64),
        ("sources", INTEGERS),
        ("lengths", INTEGERS),
        ("cosines", FLOATS),
        ("sines", FLOATS),
        ("pairs", ctypes.c_int64),
        ("pair_first", ctypes.c_int64),
        ("pair_second", ctypes.c_int64),
        ("x", FLOATS),
        ("queries", FLOATS),
        ("scratch", FLOATS),
        ("scratch_numbers", ctypes.c_int64),
        ("at_once", ctypes.c_int64),
        ("next", ctypes.c_int64),
        ("threads", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Newest:
    """The kernel, for one decoder and the sources that its rows read.

    Attributes:
        decoder: whose tensors the kernel is told of.
        sources: likewise.
        blocks: where the decoder's tensors lie.
        keys: where the sources' keys lie, block by block.
        values: likewise.
    """

    decoder: BareDecoder
    sources: Sources
    blocks: "ctypes.Array[Block]"
    keys: "ctypes.Array[Vectors]"
    values: "ctypes.Array[Vectors]"

    @classmethod
    def of(cls, decoder: BareDecoder, sources: Sources) -> "Newest | None":
        """The kernel; None where `why_not` has something against it."""
        if why_not(decoder, sources) is not None:
            return None
        return cls(decoder, sources, row_of(Block, decoder.blocks), *vectors(sources))

    def reading(self, sources: Sources) -> "Newest":
        """The same for rows that read some of the sources, in any order."""
        return Newest(self.decoder, sources, self.blocks, *vectors(sources))

    def read(self, x: Rows, past: Past) -> tuple[Rows, SourceQueries]:
        """Let the newest tokens go through all blocks, and write their keys and values into the past.

        Args:
            x: their vectors, which become those that come out.

        Returns:
            What the output projection takes; and each block's queries to the sources.
        """
        own, feed_forward = self.decoder.blocks[0].own, self.decoder.blocks[0].feed_forward
        n_rows, room, places, sources = len(x), past.room.numbers, past.table, self.sources
        threads = min(torch.get_num_threads(), n_rows)
        at_once = ceil(n_rows / (threads * ceil(n_rows / (threads * MOST_AT_ONCE))))
        queries = x.new_empty(len(self.blocks), n_rows, x.shape[1])
        scratch = x.new_empty(threads, self.scratch_numbers(at_once, past.n_tokens))
        call = Call(
            decoder=self.blocks,
            blocks=len(self.blocks),
            d_model=x.shape[1],
            heads=own.n_heads,
            key_heads=own.n_key_heads,
            d_head=own.d_head,
            activation=(GATES if feed_forward.gated else PLAIN)[feed_forward.activation],
            gated=feed_forward.gated,
            norm_before=self.decoder.blocks[0].around_own.before,
            norm=Norm() if self.decoder.norm is None else Norm.of(self.decoder.norm),
            rows=n_rows,
            tokens=past.n_tokens,
            room=room.data_ptr(),
            room_tokens=room.shape[4],
            places=places.data_ptr(),
            places_row=places.stride(0),
            places_token=places.stride(1),
            source_keys=self.keys,
            source_values=self.values,
            source_tokens=sources.n_tokens,
            sources=sources.of_row.data_ptr(),
            lengths=None if sources.lengths is None else sources.lengths.data_ptr(),
            x=x.data_ptr(),
            queries=queries.data_ptr(),
            scratch=scratch.data_ptr(),
            scratch_numbers=scratch.shape[1],
            at_once=at_once,
        )
        if own.positions is not None:
            d_rotary = own.positions.d_rotary or own.d_head
            cos, sin = own.positions.cos_and_sin(torch.tensor([past.n_tokens - 1], device=x.device), d_rotary, x)
            call.cosines, call.sines, call.pairs = cos.data_ptr(), sin.data_ptr(), d_rotary // 2
            halves = own.positions.pairing == "halves"
            call.pair_first, call.pair_second = (1, d_rotary // 2) if halves else (2, 1)
        run_on_threads(regard_newest(), call, threads)
        return x, tuple(by_source(query, len(sources.memory[0].key), own.n_heads) for query in queries)

    def scratch_numbers(self, rows: int, tokens: int) -> int:
        """What a thread needs for so many rows at once."""
        block = self.decoder.blocks[0]
        widths = 4 * len(block.own.query.weight), 2 * len(block.own.key.weight), len(block.widen.weight)
        return rows * sum(widths) + max(tokens, self.sources.n_tokens) + WIDE


def vectors(sources: Sources) -> tuple["ctypes.Array[Vectors]", "ctypes.Array[Vectors]"]:
    """Where the keys and the values of sources lie, block by block."""
    memory = sources.memory
    return row_of(Vectors, [known.key for known in memory]), row_of(Vectors, [known.value for known in memory])


def row_of(struct: Any, things: Sequence[Any]) -> Any:
    """Structs one behind the other."""
    return (struct * len(things))(*map(struct.of, things))


def projections(block: BareBlock) -> tuple[Linear, ...]:
    """The projections of a block, in the order of the struct's."""
    own, cross = block.own, block.cross
    return own.query, own.key, own.value, own.output, cross.query, cross.output, block.widen, block.narrow


def why_not(decoder: BareDecoder, sources: Sources) -> str | None:
    """Why the kernel cannot take the steps of a decoder; None if it can."""
    for projection in chain.from_iterable(map(projections, decoder.blocks)):
        if (reason := linear.why_not(projection.weight, projection.bias)) is not None:
            return reason
    first = decoder.blocks[0]
    if first.own.d_head % WIDE:
        return f"heads have a multiple of {WIDE} numbers"
    if any(shape(block) != shape(first) for block in decoder.blocks) or not fits(first):
        return "all blocks have the same shape, the paper's"
    norms = [around.norm for block in decoder.blocks for around in arounds(block)]
    numbers = [decoder.embedding.by_token.weight]
    numbers += [part for norm in (*norms, decoder.norm) if norm is not None for part in (norm.weight, norm.bias)]
    numbers += [part for known in sources.memory for part in (known.key, known.value)]
    if any(each.dtype != torch.float32 or each.stride(-1) != 1 for each in numbers):
        return "it reads float32, the numbers of a vector side by side"
    if regard_newest() is None:
        return "no C compiler was found"
    return None


def shape(block: BareBlock) -> tuple[Any, ...]:
    """What the kernel is told once for all blocks."""
    own, cross = block.own, block.cross
    heads = (own.n_heads, own.n_key_heads, own.d_head), (cross.n_heads, cross.n_key_heads, cross.d_head)
    widths = tuple(tuple(projection.weight.shape) for projection in projections(block))
    norms = tuple((around.before, len(around.norm.weight)) for around in arounds(block))
    return heads, widths, norms, block.feed_forward.activation, own.positions


def fits(block: BareBlock) -> bool:
    """Whether each part takes what the one before it gives: the kernel does not ask again."""
    heads, widths, norms, *_ = shape(block)
    n_heads, n_key_heads, d_head = heads[0]
    d_model, d_key, d_ff = n_heads * d_head, n_key_heads * d_head, widths[-1][1]
    square, wide = (d_model, d_model), 2 * d_ff if block.feed_forward.gated else d_ff
    as_the_paper_has = square, (d_key, d_model), (d_key, d_model), *3 * (square,), (wide, d_model), (d_model, d_ff)
    return heads[0] == heads[1] and widths == as_the_paper_has and set(norms) == {(norms[0][0], d_model)}


def arounds(block: BareBlock) -> tuple[Around, ...]:
    """The paths round a block's sublayers, in the order of the struct's norms."""
    return block.around_own, block.around_cross, block.around_feed_forward


@cache
def regard_newest() -> Any | None:
    """The compiled function, which takes a `Call` by reference; None where it cannot be had."""
    return compiled(SOURCE, "regard_newest", ctypes.c_void_p)
