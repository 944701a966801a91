"""`attention.c` as Python calls it: what it is given, field by field."""

import ctypes
from ctypes import c_double, c_float, c_int32, c_int64
from functools import cache
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.library import FLOATS, INTEGERS, KERNELS, compiled

SOURCE = KERNELS / "attention.c"


class Sum(ctypes.Structure):
    """The struct of the same name in rows.h."""

    _fields_ = (("rounded", FLOATS), ("lost", FLOATS))


class Call(ctypes.Structure):
    """What is asked of the rows, and where it goes: the struct of the same name in rows.h."""

    _fields_ = (
        ("queries", c_int64),
        ("all_keys", c_int64),
        ("offset", c_int64),
        ("inverse", FLOATS),
        ("entropy", FLOATS),
        ("distance", FLOATS),
        ("first", FLOATS),
        ("own", FLOATS),
        ("previous", FLOATS),
        ("top", c_int32),
        ("top_weights", FLOATS),
        ("top_keys", INTEGERS),
        ("lines", c_int32),
        ("cells", c_int32),
        ("largest", c_int32),
        ("line_of_query", INTEGERS),
        ("start_of_cell", INTEGERS),
        ("received", Sum),
        ("pooled", Sum),
        ("taken", ctypes.c_void_p),
    )


class Vectors(ctypes.Structure):
    """The struct of the same name in attention.c."""

    _fields_ = (("numbers", FLOATS), ("batch", c_int64), ("head", c_int64), ("token", c_int64))

    @classmethod
    def of(cls, tensor: Float[Tensor, "_batch _heads tokens d"], batch: int = 0, head: int = 0) -> "Vectors":
        """Where vectors lie, those of a batch item and a head first; one item, or one head, serves all."""
        of_item, of_head, of_token = steps(tensor)
        first = tensor.data_ptr() - tensor.itemsize * (batch * of_item + head * of_head)
        return cls(first, of_item, of_head, of_token)


class Kept(ctypes.Structure):
    """The struct of the same name in attention.c."""

    _fields_ = (("bytes", INTEGERS), ("batch", c_int64), ("head", c_int64), ("query", c_int64))

    @classmethod
    def of(cls, tensor: Bool[Tensor, "_batch _heads _queries keys"]) -> "Kept":
        """Where a mask lies; one item, head or query serves all."""
        return cls(tensor.data_ptr(), *steps(tensor))


class Reading(ctypes.Structure):
    """The struct of the same name in attention.c."""

    _fields_ = (("keys", Vectors), ("queries", Vectors), ("width", c_int32))


class Pass(ctypes.Structure):
    """What `regard_blocks` is given: the struct of the same name in attention.c."""

    _fields_ = (
        ("call", Call),
        ("places", INTEGERS),
        ("n_places", c_int64),
        ("query", Vectors),
        ("key", Vectors),
        ("scores", FLOATS),
        ("masks", INTEGERS),
        ("scale", c_float),
        ("softcap", c_float),
        ("bias", Vectors),
        ("of_bias", c_float),
        ("kept", Kept),
        ("d_key", c_int32),
        ("n_readings", c_int32),
        ("readings", Reading * 2),
        ("heads", c_int64),
        ("group", c_int64),
        ("sinks", FLOATS),
        ("starts", INTEGERS),
        ("stops", INTEGERS),
        ("limits_batch", c_int64),
        ("limits_head", c_int64),
        ("memory", FLOATS),
        ("piece", c_int64),
        ("seconds", c_double),
        ("threads", c_int64),
        ("next", c_int64),
        ("done", c_int64),
    )


def steps(tensor: Tensor) -> list[int]:
    """How far it is from one to the next along every axis but the last; where there is but one it serves all."""
    return [0 if n == 1 else step for n, step in zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True)]


@cache
def regard_blocks() -> Any | None:
    """The compiled function, which takes a `Pass` by reference; None where it cannot be had."""
    return compiled(SOURCE, "regard_blocks", ctypes.c_void_p)
