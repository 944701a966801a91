"""Loading the C library that this processor can run, and its functions.

The libraries were built from the C files in this folder when regard was installed (`build.py`). Nothing is compiled
when regard runs, and nothing is loaded from another folder. If no library was built, callers compute the same numbers
with torch operations, more slowly. ctypes releases Python's global interpreter lock during each call.
"""

import ctypes
import json
from functools import cache
from typing import Any

from regard.errors import InputError, reason
from regard.kernels.build import FOLDER, MANIFEST, SLOWDOWN, checksum, levels, library_name, sources_checksum

BUILD_COMMAND = "python -m regard.kernels.build"


@cache
def c_function(name: str, *, returns: Any = None) -> Any | None:
    """Return a function of the kernel library; None if no library was built for this processor.

    Every C function of the library takes one argument, a pointer to a struct.

    Args:
        returns: the ctype of the function's return value; None = no return value.

    Raises:
        InputError: the library is damaged, or was built from other sources.
    """
    library = loaded_library()
    if library is None:
        return None
    function = getattr(library, name)
    function.argtypes, function.restype = [ctypes.c_void_p], returns
    return function


def check_arguments(name: str, arguments: ctypes.Structure) -> None:
    """Raise RuntimeError if the arguments of a C function are inconsistent, such as a size below 0 or a null pointer.

    The library has a second function, `<name>_error`, for this check. The shapes of the tensors were checked before, so
    an error here is a bug in regard.
    """
    find_error = c_function(f"{name}_error", returns=ctypes.c_char_p)
    assert find_error is not None
    if (error := find_error(ctypes.byref(arguments))) is not None:
        raise RuntimeError(f"{name} refuses its arguments: {error.decode()}; please report this.")


@cache
def loaded_library() -> ctypes.CDLL | None:
    level = processor_level()
    return None if level is None else load(library_name(level))


@cache
def processor_level() -> str | None:
    """Return the highest level of the architecture that this processor supports, such as x86-64-v3.

    None = no library was built, or the processor does not support the lowest level.
    """
    names = list(levels())
    if not (FOLDER / MANIFEST).exists():
        return None
    library = load(library_name(names[0]))  # loaded only to ask for the processor's level
    if len(names) == 1:
        return names[0]
    n_supported = library.regard_processor_level()  # how many of the levels, from the lowest on
    return names[n_supported - 1] if n_supported > 0 else None


def has_avx2() -> bool:
    """Return whether the kernels in use compute with AVX2 or AVX-512: 8 or 16 float32 numbers at a time."""
    return processor_level() in ("x86-64-v3", "x86-64-v4", "x86-64-v4-vnni")


def load(name: str) -> ctypes.CDLL:
    """Load the library `name`; raise InputError unless library and C sources have the checksums in `built.json`."""
    try:
        manifest = json.loads((FOLDER / MANIFEST).read_text())
        sources, library = manifest["sources"], manifest["libraries"][name]
    except (OSError, ValueError, LookupError, TypeError):
        raise unusable_error(f"{MANIFEST} is damaged") from None
    try:
        if sources != sources_checksum(FOLDER):
            raise unusable_error("they were built from other C sources than those beside them")
        if library != checksum(FOLDER / name):
            raise unusable_error(f"{name} has changed since it was built")
        return ctypes.CDLL(str(FOLDER / name))
    except OSError as error:
        raise unusable_error(f"{name}: {reason(error)}") from error


def unusable_error(problem: str) -> InputError:
    return InputError(
        f"the compiled kernels in {FOLDER} cannot be used: {problem}; build them again with {BUILD_COMMAND}."
    )


def description() -> str:
    """Return the level of the kernels in use, such as x86-64-v3, or the reason why none are in use, as one line.

    >>> description().startswith("kernels: ")
    True
    """
    try:
        level = processor_level()
        loaded_library()
    except InputError as error:
        return f"kernels: none: {error}"
    if level is None:
        cause = "the processor is below x86-64-v2" if (FOLDER / MANIFEST).exists() else "no C compiler when installed"
        return f"kernels: none ({cause}); {SLOWDOWN}; with a compiler, {BUILD_COMMAND} builds them"
    return f"kernels: {level}"
