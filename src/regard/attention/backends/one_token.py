"""One query of each row, and keys and values that may lie in other rows: what a step of a search asks.

    context_r = softmax(query_r · keys_r / √d) values_r        token t of row r lies in row places[r, t] of the tensors

A beam's hypotheses have most of their tokens in common, and which they have in common changes at every step. Here the
tokens stay where they were written, and a table says where: nothing is copied when hypotheses change places. It is not
among the backends that `attend` chooses from, since it is given no masks and has no gradients.
"""

import ctypes
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.compiled import FLOATS, INTEGERS, compiled, on_threads

SOURCE = Path(__file__).with_name("one_token.c")
WIDE = 16
"""Numbers that the processor is given at once; vectors have a multiple of it."""

AT_ONCE = 8
"""Rows that a thread takes, as in one_token.c."""

WORTH_THREADS = 2**15
"""Numbers to multiply from which on it is worth while to wake other threads."""


class Vectors(ctypes.Structure):
    """The struct of the same name in one_token.c."""

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
    """What `regard_one_token` is given: the struct of the same name in one_token.c, field by field."""

    _fields_ = (
        ("rows", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("key_heads", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("tokens", ctypes.c_int64),
        ("scale", ctypes.c_float),
        ("query", Vectors),
        ("key", Vectors),
        ("value", Vectors),
        ("places", INTEGERS),
        ("places_row", ctypes.c_int64),
        ("places_token", ctypes.c_int64),
        ("lengths", INTEGERS),
        ("scores", FLOATS),
        ("context", FLOATS),
        ("next", ctypes.c_int64),
        ("threads", ctypes.c_int64),
    )


def one_token(
    query: Float[Tensor, "rows heads 1 d_head"],
    key: Float[Tensor, "places key_heads room d_head"],
    value: Float[Tensor, "places key_heads room d_head"],
    places: Int[Tensor, "rows tokens"],
    lengths: Int[Tensor, " rows"] | None = None,
) -> Float[Tensor, "rows heads d_head"]:
    """What each row's query reads; only of what `why_not` has nothing against.

    Args:
        query: of the newest token of each row.
        key: of all rows' tokens.
        value: likewise.
        places: in which of them each token of each row lies.
        lengths: how many tokens each row has, in int64; None = as many as places.
    """
    (n_rows, n_heads, _, width), n_tokens = query.shape, places.shape[1]
    threads = 1
    if query.numel() * n_tokens >= WORTH_THREADS:
        threads = min(torch.get_num_threads(), ceil(n_rows / AT_ONCE))
    scores, context = query.new_empty(threads * (n_tokens + WIDE)), query.new_empty(n_rows, n_heads, width)
    call = Call(
        rows=n_rows,
        heads=n_heads,
        key_heads=key.shape[1],
        width=width,
        tokens=n_tokens,
        scale=width**-0.5,
        query=Vectors.of(query),
        key=Vectors.of(key),
        value=Vectors.of(value),
        places=places.data_ptr(),
        places_row=places.stride(0),
        places_token=places.stride(1),
        lengths=None if lengths is None else lengths.data_ptr(),
        scores=scores.data_ptr(),
        context=context.data_ptr(),
    )
    on_threads(regard_one_token(), call, threads)
    return context


def why_not(like: Float[Tensor, "*places d_head"]) -> str | None:
    """Why queries of a kind cannot be answered here; None if they can."""
    if like.device.type != "cpu":
        return "it runs on a CPU"
    if like.dtype != torch.float32:
        return "it computes in float32"
    if like.shape[-1] % WIDE or like.stride(-1) != 1:
        return f"vectors have a multiple of {WIDE} numbers, side by side"
    if regard_one_token() is None:
        return "no C compiler was found"
    return None


@cache
def regard_one_token() -> Any | None:
    """The compiled function, which takes a `Call` by reference; None where it cannot be had."""
    return compiled(SOURCE, "regard_one_token", ctypes.c_void_p)
