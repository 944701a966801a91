"""C functions, compiled for this machine when they are first needed, and called without Python's lock.

Without a C compiler, callers compute the same numbers with torch operations, more slowly. A compiled library is kept in
the user's cache folder. Its name follows from the sources, the compiler and the processor, so that another machine with
the same folder compiles its own.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parent
"""The folder of the C files."""

HEADERS = tuple(KERNELS.glob("*.h"))
FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")

FLOATS, INTEGERS = ctypes.c_void_p, ctypes.c_void_p
"""Pointers to the numbers of floating-point tensors, and of integer tensors."""


def compiled(sources: Sequence[Path], name: str, *arguments: Any) -> Any | None:
    """Return a C function without a result, or None if it cannot be compiled and loaded.

    Args:
        sources: the C files of its library, in one folder with their headers.
        name: the function's name.
        arguments: the types of its arguments.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        for folder in (cache_folder, lambda: Path(scratch)):  # the second if the first cannot be written
            try:
                function = getattr(ctypes.CDLL(str(library(sources, folder()))), name)
            except (OSError, RuntimeError, subprocess.SubprocessError):
                continue
            function.argtypes, function.restype = arguments, None
            return function
    return None


def cache_folder() -> Path:
    """Return the folder in which the compiled libraries of this user are kept.

    Raises:
        RuntimeError: the user has no home folder.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def library(sources: Sequence[Path], folder: Path) -> Path:
    """Return the compiled library of some C files; compile it unless the folder has it.

    Raises:
        OSError: no compiler, or a folder that cannot be written.
        SubprocessError: a compiler that fails.
    """
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=30).stdout
    headers = sorted({*HEADERS, *sources[0].parent.glob("*.h")})
    texts = [path.read_bytes() for path in (*sources, *headers)]
    content = b"\0".join([*texts, version, processor(), *map(str.encode, FLAGS)])
    path = folder / f"{sources[0].stem}-{hashlib.sha256(content).hexdigest()[:16]}.so"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            compiled_file = Path(scratch) / path.name
            compile_for_this_machine(compiler, sources, compiled_file)
            compiled_file.replace(path)
    return path


def compile_for_this_machine(compiler: str, sources: Sequence[Path], compiled_file: Path) -> None:
    """Compile for this very processor, or for any processor if the compiler does not know how."""
    for machine in ("-march=native", "-mcpu=native", None):
        options = [*FLAGS, *filter(None, [machine])]
        command = [compiler, *options, *map(str, sources), "-o", str(compiled_file), "-lm"]
        run = subprocess.run(command, capture_output=True, timeout=60)
        if run.returncode == 0:
            return
    raise subprocess.CalledProcessError(run.returncode, command, stderr=run.stderr)


def processor() -> bytes:
    """Return the model and the features of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor().encode() + platform.machine().encode()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))})).encode()
