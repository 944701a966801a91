"""`blocks.c` as Python calls it: what it is given, field by field."""

import ctypes
from ctypes import c_double, c_float, c_int32, c_int64
from functools import cache
from pathlib import Path
from typing import Any

from regard.attention.compiled import FLOATS, INTEGERS, compiled

SOURCE = Path(__file__).with_name("blocks.c")


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
    """The struct of the same name in blocks.c."""

    _fields_ = (("numbers", FLOATS), ("batch", c_int64), ("head", c_int64), ("token", c_int64))


class Reading(ctypes.Structure):
    """The struct of the same name in blocks.c."""

    _fields_ = (("keys", Vectors), ("queries", Vectors), ("width", c_int32))


class Pass(ctypes.Structure):
    """What `regard_blocks` is given: the struct of the same name in blocks.c."""

    _fields_ = (
        ("call", Call),
        ("places", INTEGERS),
        ("n_places", c_int64),
        ("query", Vectors),
        ("key", Vectors),
        ("scores", FLOATS),
        ("scale", c_float),
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


@cache
def regard_blocks() -> Any | None:
    """The compiled function, which takes a `Pass` by reference; None where it cannot be had."""
    return compiled(SOURCE, "regard_blocks", ctypes.c_void_p)
