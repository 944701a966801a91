"""Running a C function on several of torch's own threads."""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

IMPORTING_PROCESS = os.getpid()
"""The process that imported this module; a process forked from it has none of torch's threads."""


def run_on_threads(function: Any, arguments: ctypes.Structure, threads: int) -> None:
    """Run a C function on several of torch's own threads at once, which are awake already.

    Args:
        function: takes the arguments by reference, and shares out the work among the threads itself.
        threads: the largest number of threads; one thread is used where torch's cannot be had, as in a forked process.
    """
    if threads > 1 and os.getpid() == IMPORTING_PROCESS and (run_parallel := gnu_openmp_parallel()) is not None:
        run_parallel(function, ctypes.byref(arguments), threads, 0)
    else:
        function(ctypes.byref(arguments))


@cache
def gnu_openmp_parallel() -> Callable[..., None] | None:
    """Return the function that runs another one on torch's threads, or None where these are not GNU OpenMP's.

    Source: libgomp's entry point of a parallel region, `GOMP_parallel(function, data, threads, flags)`.
    """
    try:
        function = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return function
