"""Read lines of text as they arrive: one at a time from a keyboard, many at a time from a file."""

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import cast

from regard.errors import InputError, reason, refuse_missing
from regard.text.parallel import GZIP, LONGEST_LINE, decode_line, refuse_longer

FIRST_BYTES, MOST_BYTES = 2**12, 2**16
"""The size of the first read in bytes (small, to answer the first lines soon), and of the largest read.

`regard translate` translates the lines of one read together, sorted by length, before it writes their translations.
"""


def standard_input() -> BufferedIOBase:
    if sys.stdin is None:
        raise InputError("standard input is closed; give a text by a pipe, or name a file.")
    return cast("BufferedIOBase", sys.stdin.buffer)


def decompressed(stream: BufferedIOBase) -> BufferedIOBase:
    # only a BufferedReader has `peek`, which reads without moving on
    file = stream if isinstance(stream, BufferedReader) else BufferedReader(cast("RawIOBase", stream))
    return gzip.open(file) if file.peek(2)[:2] == GZIP else file


def available_lines(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """Yield, after each read of a stream, the lines that this read completed, without line ends.

    A line that is longer than `LONGEST_LINE` is yielded before it is complete, so that `read_lines` can refuse it
    without reading it whole. The last line may have no line end.
    """
    size, incomplete_line = FIRST_BYTES, b""
    while data := stream.read1(size):
        *lines, incomplete_line = (incomplete_line + data).split(b"\n")
        if len(incomplete_line) > LONGEST_LINE:
            lines, incomplete_line = [*lines, incomplete_line], b""
        if lines:
            yield lines
        size = min(2 * size, MOST_BYTES)
    if incomplete_line:
        yield [incomplete_line]


def read_lines(
    stream: BufferedIOBase, file: Path | None = None, prompt: Callable[[], None] = lambda: None
) -> Iterator[list[str]]:
    """Yield lists of lines of a stream, as they arrive, without a byte order mark and without CR at the ends of lines.

    Args:
        file: the name of the stream for messages; None = standard input.
        prompt: called before each wait for lines.

    Raises:
        InputError: a line is not UTF-8 or too long, or cannot be read; the lines before it have been yielded.
    """
    name = file or "standard input"
    number = 0  # of the line
    prompt()
    try:
        for lines in available_lines(decompressed(stream)):
            texts: list[str] = []
            for line in lines:
                number += 1
                try:
                    refuse_longer(line, name, number)
                    text = decode_line(line, name, number)
                except InputError:
                    yield texts
                    raise
                if number == 1:
                    text = text.removeprefix("\ufeff")
                texts.append(text.removesuffix("\r"))
            yield texts
            prompt()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {name}: {reason(error)}.") from error


def open_text(stack: ExitStack, path: Path) -> BufferedIOBase:
    try:
        refuse_missing(path)
        return stack.enter_context(path.open("rb"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; give a text file with a sentence a line.") from error


def read_stdin() -> str:
    return "\n".join(read_file_lines(Path("-")))


def read_file_lines(path: Path) -> list[str]:
    """Read all lines of a text file; - is standard input."""
    if str(path) == "-":
        return [line for lines in read_lines(standard_input()) for line in lines]
    try:
        refuse_missing(path)
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name another file.") from error
    with file:
        return [line for lines in read_lines(file, path) for line in lines]
