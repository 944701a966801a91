"""Calling a C function on several threads of PyTorch's thread pool at once."""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

IMPORTING_PROCESS = os.getpid()
"""The id of the process that imported this module; processes forked from it do not have PyTorch's threads."""


def run_on_threads(function: Any, arguments: ctypes.Structure, threads: int) -> None:
    """Call a C function once on each thread, with a pointer to `arguments`; the calls must divide the work.

    For instance, each call takes the next part of the work by a counter in `arguments`, until no part is left.
    If PyTorch's threads are not available, as in a forked process, the function is called once, and does all the work.
    """
    if threads > 1 and os.getpid() == IMPORTING_PROCESS and (run_parallel := gnu_openmp_parallel()) is not None:
        run_parallel(function, ctypes.byref(arguments), threads, 0)  # 0: no flags
    else:
        function(ctypes.byref(arguments))


@cache
def gnu_openmp_parallel() -> Callable[..., None] | None:
    """Return `GOMP_parallel`, which calls function(data) on each thread; None if torch does not use GNU OpenMP."""
    try:
        function = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return function
