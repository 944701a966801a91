"""Lines as they come: what is there is worked on at once, be it a line that somebody typed or a part of a long file."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from regard.errors import InputError, reason

FIRST_BYTES, MOST_BYTES = 2**12, 2**20
"""How much is read at a time: little at first, so that the first lines are soon answered, then more."""


def arriving(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """The lines of a stream without their ends, all those that are there at a time; a file ends with or without one."""
    size, rest = FIRST_BYTES, b""
    while data := stream.read1(size):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield lines
        size = min(2 * size, MOST_BYTES)
    if rest:
        yield [rest]


def read_lines(stream: BufferedIOBase) -> Iterator[list[str]]:
    """The lines of a stream as text; a byte order mark before the first is dropped, and so is CR at the end of each.

    Raises:
        InputError: a line is not UTF-8; all before it have been given.
    """
    number = 0
    for lines in arriving(stream):
        texts: list[str] = []
        for line in lines:
            number += 1
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                if texts:
                    yield texts
                raise InputError(
                    f"line {number} is not UTF-8 (byte 0x{line[error.start]:02X} at place {error.start + 1}); "
                    "convert the text first, for instance with iconv -f LATIN1 -t UTF-8."
                ) from error
            texts.append((text.removeprefix("\ufeff") if number == 1 else text).removesuffix("\r"))
        yield texts


def lines_of(path: Path) -> list[str]:
    """The lines of a text file; - is standard input.

    Raises:
        InputError: it cannot be read, or a line is not UTF-8.
    """
    try:
        given = nullcontext(cast("BufferedIOBase", sys.stdin.buffer)) if str(path) == "-" else path.open("rb")
        with given as stream:
            return [line for some in read_lines(stream) for line in some]
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name another file.") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


Tell = Callable[[str], None]


@contextmanager
def watched(stream: BufferedIOBase, what: str) -> Iterator[tuple[Tell, Callable[[int], None]]]:
    """How far the work is, where somebody watches and nothing else is shown: on the error stream's terminal.

    Gives two functions: one prints a remark, one counts lines that are done.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal or sys.stdout.isatty() or stream.isatty():
        yield (lambda remark: print(remark, file=sys.stderr)), (lambda n: None)
        return
    columns = (
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.fields[lines]:,} lines"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=size_of(stream), lines=0)
        done = 0

        def count(n: int) -> None:
            nonlocal done
            done += n
            progress.update(task, lines=done, completed=place_in(stream))

        yield (lambda remark: console.print(remark, markup=False, highlight=False, soft_wrap=True)), count


def size_of(stream: BufferedIOBase) -> int | None:
    """How many bytes a file has; None for what is none."""
    status = os.fstat(stream.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def place_in(stream: BufferedIOBase) -> int | None:
    """How many bytes have been read; None where that is not known."""
    return stream.tell() if stream.seekable() else None
