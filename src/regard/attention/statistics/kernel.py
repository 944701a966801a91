"""`rows.c` as Python calls it: what it is given, field by field."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from regard.attention.compiled import FLOATS, INTEGERS, compiled

SOURCE = Path(__file__).with_name("rows.c")


class Sum(ctypes.Structure):
    """The struct of the same name in rows.c."""

    _fields_ = (("rounded", FLOATS), ("lost", FLOATS))


class Call(ctypes.Structure):
    """What `regard_rows` is given for all blocks: the struct of the same name in rows.c, field by field."""

    _fields_ = (
        ("queries", ctypes.c_int64),
        ("all_keys", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("inverse", FLOATS),
        ("entropy", FLOATS),
        ("distance", FLOATS),
        ("first", FLOATS),
        ("own", FLOATS),
        ("previous", FLOATS),
        ("top", ctypes.c_int32),
        ("top_weights", FLOATS),
        ("top_keys", INTEGERS),
        ("lines", ctypes.c_int32),
        ("cells", ctypes.c_int32),
        ("largest", ctypes.c_int32),
        ("line_of_query", INTEGERS),
        ("start_of_cell", INTEGERS),
        ("received", Sum),
        ("pooled", Sum),
        ("taken", ctypes.c_void_p),
    )


BLOCK = (
    *(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64),
    *(ctypes.c_float, INTEGERS, INTEGERS, FLOATS),
)
"""What it is given for each: rows, keys, width, part, head, query, first_key, sink, starts, stops, scores."""


@cache
def regard_rows() -> Any | None:
    """The compiled function, which takes a `Call` by reference and a `BLOCK`; None where it cannot be had."""
    return compiled(SOURCE, "regard_rows", ctypes.POINTER(Call), *BLOCK)
