"""C that is compiled for this machine when it is first needed, and called without Python's lock.

Where there is no C compiler the caller does the same with torch's operations: the same numbers, more slowly. A compiled
file is kept in the user's cache folder, under a name that follows from its source, the compiler and the machine's
processor, so that another machine with the same folder compiles its own.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parent
"""The folder of the C files."""

HEADERS = tuple(KERNELS.glob("*.h"))
FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")

FLOATS, INTEGERS = ctypes.c_void_p, ctypes.c_void_p
"""Pointers into tensors of floating-point numbers, and of whole ones."""


def compiled(source: Path, name: str, *arguments: Any) -> Any | None:
    """A function of a C file, which gives nothing back; None where it cannot be had.

    Args:
        source: where it is written, with nothing beside it but headers, those of its folder and of this one.
        name: of the function.
        arguments: their types.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        for folder in (cache_folder, lambda: Path(scratch)):  # the second where there is no folder to be written
            try:
                function = getattr(ctypes.CDLL(str(library(source, folder()))), name)
            except (OSError, RuntimeError, subprocess.SubprocessError):
                continue
            function.argtypes, function.restype = arguments, None
            return function
    return None


def cache_folder() -> Path:
    """Where this user's programs keep what they can make again.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def library(source: Path, folder: Path) -> Path:
    """The compiled file, made if it is not there yet.

    Raises:
        OSError: no compiler, or a folder that cannot be written.
        SubprocessError: a compiler that fails.
    """
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=30).stdout
    texts = [path.read_bytes() for path in (source, *sorted({*HEADERS, *source.parent.glob("*.h")}))]
    made_of = b"\0".join([*texts, version, processor(), *map(str.encode, FLAGS)])
    path = folder / f"{source.stem}-{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / path.name
            compile_for_this_machine(compiler, source, made)
            made.replace(path)
    return path


def compile_for_this_machine(compiler: str, source: Path, made: Path) -> None:
    """Compile for just this processor where the compiler knows how, else for any."""
    for machine in ("-march=native", "-mcpu=native", None):
        command = [compiler, *FLAGS, *filter(None, [machine]), str(source), "-o", str(made), "-lm"]
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
