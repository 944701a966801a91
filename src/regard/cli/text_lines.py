"""Lines as they come: what is there is worked on at once, be it a line that somebody typed or a part of a long file."""

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import cast

from regard.errors import InputError, reason
from regard.text.parallel import GZIP, LONGEST_LINE, decoded, refuse_longer

FIRST_BYTES, MOST_BYTES = 2**12, 2**20
"""How much is read at a time: little at first, so that the first lines are soon answered, then more."""


def decompressed(stream: BufferedIOBase) -> BufferedIOBase:
    """A stream, unpacked where it is packed."""
    file = stream if isinstance(stream, BufferedReader) else BufferedReader(cast("RawIOBase", stream))
    return gzip.open(file) if file.peek(2)[:2] == GZIP else file


def available_lines(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """The lines of a stream without their ends, all those that are there at a time; a file ends with or without one.

    A line is given before its end has come where it is already longer than `LONGEST_LINE`.
    """
    size, rest = FIRST_BYTES, b""
    while data := stream.read1(size):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        if lines:
            yield lines
        size = min(2 * size, MOST_BYTES)
    if rest:
        yield [rest]


def read_lines(stream: BufferedIOBase, file: Path | None = None) -> Iterator[list[str]]:
    """The lines of a stream as text; a byte order mark before the first is dropped, and so is CR at the end of each.

    Args:
        file: what is read; None = standard input.

    Raises:
        InputError: a line is not UTF-8, or too long; all before it have been given. Or the stream cannot be read.
    """
    name, number = file or "standard input", 0
    try:
        for lines in available_lines(decompressed(stream)):
            texts: list[str] = []
            for line in lines:
                number += 1
                try:
                    refuse_longer(line, name, number)
                    text = decoded(line, name, number)
                except InputError:
                    yield texts
                    raise
                texts.append((text.removeprefix("\ufeff") if number == 1 else text).removesuffix("\r"))
            yield texts
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {name}: {reason(error)}.") from error


def read_file_lines(path: Path) -> list[str]:
    """The lines of a text file; - is standard input.

    Raises:
        InputError: it cannot be read, or a line is not UTF-8 or too long.
    """
    if str(path) == "-":
        return [line for some in read_lines(cast("BufferedIOBase", sys.stdin.buffer)) for line in some]
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name another file.") from error
    with file:
        return [line for some in read_lines(file, path) for line in some]


Tell = Callable[[str], None]


@contextmanager
def line_progress(stream: BufferedIOBase, what: str) -> Iterator[tuple[Tell, Callable[[int], None]]]:
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
        task = progress.add_task(what, total=file_size(stream), lines=0)
        done = 0

        def count(n: int) -> None:
            nonlocal done
            done += n
            progress.update(task, lines=done, completed=n_bytes_read(stream))

        yield (lambda remark: console.print(remark, markup=False, highlight=False, soft_wrap=True)), count


def file_size(stream: BufferedIOBase) -> int | None:
    """How many bytes a file has; None for what is none."""
    status = os.fstat(stream.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def n_bytes_read(stream: BufferedIOBase) -> int | None:
    """How many bytes have been read; None where that is not known."""
    return stream.tell() if stream.seekable() else None
