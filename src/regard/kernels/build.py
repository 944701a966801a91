"""Build the C kernels: `python -m regard.kernels.build` compiles them into this folder, as installing regard does.

On x86-64, the kernels are compiled into one library for each level of the architecture (x86-64-v2 to v4, and v4 with
VNNI, instructions for 8-bit integers), and elsewhere into one library. When regard runs, `library.py` loads the library
of the highest level that the processor supports. The file `built.json` contains the checksums of the libraries and of
the C sources, so that a damaged library, or one built from other sources, is never loaded.

This file imports only the standard library, because building a wheel runs it before regard's dependencies exist.
"""

import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).parent

MANIFEST = "built.json"
"""The file with the checksums of the libraries and of the C sources."""

FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")

V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
V3 = (*V2, "avx", "avx2", "bmi", "bmi2", "fma")
V4 = (*V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
V4_VNNI = (*V4, "avx512vnni")
"""The instruction sets that the kernels use at the four levels of x86-64 (V2 to V4_VNNI), by the compiler's names."""

LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {"x86-64-v2": V2, "x86-64-v3": V3, "x86-64-v4": V4, "x86-64-v4-vnni": V4_VNNI},
}
"""For each architecture that has levels, the instruction sets that the kernels use at each level, lowest level first.

`processor.c` tests whether the processor has these sets. On any other architecture, there is one level: the compiler's
default.
"""

COMPILE_SECONDS = 120
"""The time limit for compiling one library; normally, a library takes a few seconds."""

SLOWDOWN = "attention with statistics takes up to 20 times as long on a CPU, and decoding up to 9 times"
"""A part of error messages."""


class BuildError(Exception):
    """The message gives the reason why the C kernels cannot be built, on one line."""


def build(folder: Path = FOLDER, *flags: str) -> list[str]:
    """Compile the C files of a folder for each level of the architecture; return the file names.

    Args:
        folder: the folder of the C files, into which the libraries and `built.json` are written.
        flags: options for the compiler, after `FLAGS`. The environment variable CFLAGS is not used: it may slow the
            kernels down, or add instruction sets that `processor.c` does not test for.
    """
    failures = []
    for compiler in compilers():
        with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as scratch:
            try:
                names = compile_levels(compiler, folder, Path(scratch), flags)
            except BuildError as error:
                failures.append(str(error))
                continue
            checksums = {name: checksum(Path(scratch) / name) for name in names}
            (Path(scratch) / MANIFEST).write_text(
                json.dumps({"sources": sources_checksum(folder), "libraries": checksums}, indent=2) + "\n"
            )
            for name in (*names, MANIFEST):
                (Path(scratch) / name).replace(folder / name)
            return names
    (folder / MANIFEST).unlink(missing_ok=True)  # so that no library of an earlier build is loaded
    raise BuildError("; ".join(failures) or "no C compiler (cc, gcc or clang) was found")


def compilers() -> list[list[str]]:
    """Return the commands of the installed C compilers, in the order to try them."""
    commands = [shlex.split(os.environ.get("CC", "")), ["cc"], ["gcc"], ["clang"]]
    return [command for command in commands if command and shutil.which(command[0])]


def levels() -> dict[str, tuple[str, ...]]:
    """Return the levels of this machine's architecture, lowest first, each with its instruction sets."""
    machine = platform.machine().lower()
    if machine == "amd64":  # the name that Windows and BSD use
        machine = "x86_64"
    return LEVELS.get(machine, {machine or "any": ()})


def library_name(level: str) -> str:
    return f"kernels-{level}.so"


def compile_levels(compiler: list[str], folder: Path, into: Path, flags: tuple[str, ...]) -> list[str]:
    """Compile the C files of `folder` to libraries in `into`, one for each of the `levels`; return their file names."""
    sources = [str(path) for path in sorted(folder.glob("*.c"))]

    def compile_level(level: str, instruction_sets: tuple[str, ...]) -> str:
        name = library_name(level)
        machine = [f"-m{instructions}" for instructions in instruction_sets]
        run([*compiler, *FLAGS, *machine, *flags, *sources, "-o", str(into / name), "-lm"])
        return name

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:
        return list(workers.map(compile_level, levels().keys(), levels().values()))


def run(command: list[str]) -> None:
    """Run a compiler; after `COMPILE_SECONDS`, kill it and the processes that it started."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as compiler:
        try:
            output, _ = compiler.communicate(timeout=COMPILE_SECONDS)
        except subprocess.TimeoutExpired:
            raise BuildError(f"{command[0]} was stopped after {COMPILE_SECONDS} seconds") from None
        finally:
            if compiler.poll() is None:
                os.killpg(compiler.pid, signal.SIGKILL)
    if compiler.returncode:
        lines = output.decode(errors="replace").splitlines()
        first_error = next((line.strip() for line in lines if "error" in line), "it printed no error")
        raise BuildError(f"{command[0]} failed with status {compiler.returncode}: {first_error}")


def sources_checksum(folder: Path) -> str:
    """Return one SHA-256 checksum over the names and contents of all .c and .h files in a folder."""
    files = sorted([*folder.glob("*.c"), *folder.glob("*.h")])
    return hashlib.sha256(b"\0".join(file.name.encode() + b"\0" + file.read_bytes() for file in files)).hexdigest()


def checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main(folder: Path = FOLDER, *flags: str) -> int:
    """Build the kernels; return the exit status of the program, 0 for success and 1 for failure."""
    try:
        names = build(folder, *flags)
    except (BuildError, OSError) as error:
        print(f"regard: the C kernels were not built: {error}. Without them {SLOWDOWN}.", file=sys.stderr)
        return 1
    print(f"built {', '.join(names)} in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(FOLDER, *sys.argv[1:]))
