"""`rows.c`, compiled for this machine when it is first needed, and called without Python's lock.

Where there is no C compiler the statistics are gathered with torch's operations instead: the same numbers, more slowly.
A compiled file is kept in the user's cache folder, under a name that follows from the source, the compiler and the
machine's processor, so that another machine with the same folder compiles its own.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("rows.c")
FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")

FLOATS, INTEGERS = ctypes.c_void_p, ctypes.c_void_p
"""Pointers into tensors of floating-point numbers, and of whole ones."""


class Sum(ctypes.Structure):
    """The struct of the same name in rows.c."""

    _fields_ = (("rounded", FLOATS), ("lost", FLOATS))


class Block(ctypes.Structure):
    """What `regard_rows` is given: the struct of the same name in rows.c, field by field."""

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
        ("rows", ctypes.c_int32),
        ("keys", ctypes.c_int32),
        ("head", ctypes.c_int64),
        ("query", ctypes.c_int64),
        ("first_key", ctypes.c_int64),
        ("sink", ctypes.c_float),
        ("starts", INTEGERS),
        ("stops", INTEGERS),
        ("scores", FLOATS),
        ("column", FLOATS),
        ("of_keys", FLOATS),
        ("of_cells", FLOATS),
    )


@cache
def regard_rows() -> Any | None:
    """The compiled function, which takes a `Block` by reference; None where it cannot be had."""
    with tempfile.TemporaryDirectory(
        ignore_cleanup_errors=True
    ) as scratch:  # where the user's folder cannot be written
        for folder in (cache_folder(), Path(scratch)):
            try:
                function = ctypes.CDLL(str(library(folder))).regard_rows
            except (OSError, subprocess.SubprocessError):
                continue
            function.argtypes, function.restype = [ctypes.POINTER(Block)], None
            return function
    return None


def cache_folder() -> Path:
    """Where this user's programs keep what they can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def library(folder: Path) -> Path:
    """The compiled file, made if it is not there yet.

    Raises:
        OSError: no compiler, or a folder that cannot be written.
        SubprocessError: a compiler that fails.
    """
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=30).stdout
    made_of = b"\0".join([SOURCE.read_bytes(), version, processor(), *map(str.encode, FLAGS)])
    path = folder / f"rows-{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / path.name
            compile_for_this_machine(compiler, made)
            made.replace(path)
    return path


def compile_for_this_machine(compiler: str, made: Path) -> None:
    """Compile for just this processor where the compiler knows how, else for any."""
    for machine in ("-march=native", "-mcpu=native", None):
        command = [compiler, *FLAGS, *filter(None, [machine]), str(SOURCE), "-o", str(made), "-lm"]
        done = subprocess.run(command, capture_output=True, timeout=60)
        if done.returncode == 0:
            return
    raise subprocess.CalledProcessError(done.returncode, command, stderr=done.stderr)


def processor() -> bytes:
    """What the processor can do, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor().encode() + platform.machine().encode()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))})).encode()
