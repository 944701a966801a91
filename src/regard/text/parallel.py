"""Parallel text: two files, in which each line of the one is the translation of the same line of the other.

Files come as they are, UTF-8, plain or gzip. What can be tidied is: byte order marks, carriage returns, runs of spaces,
control characters. A pair with an empty side is left out and counted. What cannot be read is refused by its line.

Only a line feed ends a line, with or without a carriage return before it; a carriage return elsewhere, a form feed or
U+2028 is a space. Letters stay as they are written: no Unicode normalisation, so a translator writes as its corpus.
"""

import gzip
import hashlib
import heapq
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO

from regard.errors import InputError, nearest, reason
from regard.text.cleaning import printed, tidied

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

UTF16_MARKS = b"\xff\xfe", b"\xfe\xff"

GZIP = b"\x1f\x8b"
"""What a gzip file begins with, whatever it is called."""

LONGEST_LINE = 2**20
"""Bytes of a line at most: a file without line ends is not read into memory as one."""


@dataclass(slots=True)
class Report:
    """What became of the pairs of a corpus.

    >>> print(Report(read=1000, carriage_returns=2000, empty=3, held_out=50, kept=947).table())
      1,000  pairs read
      2,000  lines with a carriage return, removed
          3  pairs with an empty side, left out
         50  pairs held out to judge by
        947  pairs to learn from
    """

    read: int = 0
    """Pairs in the files."""

    byte_order_marks: int = 0
    """Files with one, removed."""

    carriage_returns: int = 0
    """Lines that ended with one, removed; those of both files count, here and in the next two."""

    extra_spaces: int = 0
    """Lines with more or other spaces than one between two words."""

    control_characters: int = 0
    """Lines with characters that are no text, removed."""

    empty: int = 0
    """Pairs with an empty side, left out."""

    over_long: int = 0
    """Pairs with a side of more pieces than a sentence may have, left out."""

    mismatched: int = 0
    """Pairs with sides of too different lengths, left out."""

    held_out: int = 0
    """Pairs that are not learned from, to judge by them."""

    kept: int = 0
    """Pairs that are learned from."""

    unknown: int = 0
    """Those of them with a letter that the vocabulary does not know."""

    def as_dict(self) -> dict[str, int]:
        """By name."""
        return asdict(self)

    def table(self) -> str:
        """A line for each thing that was met."""
        rows = {
            "pairs read": self.read,
            "files with a byte order mark, removed": self.byte_order_marks,
            "lines with a carriage return, removed": self.carriage_returns,
            "lines with extra spaces, made one": self.extra_spaces,
            "lines with control characters, removed": self.control_characters,
            "pairs with an empty side, left out": self.empty,
            "pairs with an over-long side, left out": self.over_long,
            "pairs of mismatched lengths, left out": self.mismatched,
            "pairs held out to judge by": self.held_out,
            "pairs to learn from": self.kept,
            "of them with letters that the vocabulary does not know": self.unknown,
        }
        always = "pairs read", "pairs to learn from"
        return "\n".join(f"{number:>7,}  {what}" for what, number in rows.items() if number or what in always)

    def left_out(self) -> str:
        """What was wrong with the pairs that are neither learned from nor held out.

        >>> Report(empty=3, over_long=1000).left_out()
        '3 empty, 1,000 over-long'
        """
        out = {"empty": self.empty, "over-long": self.over_long, "of mismatched lengths": self.mismatched}
        return ", ".join(f"{number:,} {what}" for what, number in out.items() if number)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Two files of translations of each other, gone through line by line as often as needed, never held as a whole."""

    source: Path
    target: Path

    def pairs(self, report: Report | None = None) -> Iterator[tuple[str, str]]:
        """The tidied pairs, without those that have an empty side.

        Args:
            report: in which the pairs that are read, tidied and left out are counted.

        Raises:
            InputError: a file that cannot be read, is not UTF-8 or is empty, or files of unequal numbers of lines.
        """
        report = report or Report()
        if same_file(self.source, self.target):
            raise InputError(f"{self.source} and {self.target} are one file; give the translations as the second one.")
        for source, target in zip_longest(tidy_lines(self.source, report), tidy_lines(self.target, report)):
            if source is None or target is None:
                self.refuse_unequal()
                return
            report.read += 1
            if source and target:
                yield source, target
            else:
                report.empty += 1
        if report.read == 0:
            raise InputError(f"{self.source} and {self.target} are empty; give files with a sentence on each line.")

    def refuse_unequal(self) -> None:
        """Say how many lines each file has."""
        source, target = (sum(1 for _ in raw_lines(path)) for path in (self.source, self.target))
        raise InputError(
            f"{self.source} has {source:,} lines and {self.target} has {target:,}; line by line they must be "
            "translations of each other, so both must have as many."
        )


def same_file(source: Path, target: Path) -> bool:
    """Whether two paths lead to one file that exists."""
    return source.exists() and target.exists() and source.samefile(target)


# Lines


def tidy_lines(path: Path, report: Report | None = None) -> Iterator[str]:
    """The lines of a file as tidy text: words with single spaces between them.

    Args:
        report: in which lines that had to be tidied are counted.

    Raises:
        InputError: the file cannot be read, or a line is not UTF-8.
    """
    report = report or Report()
    for number, line in enumerate(raw_lines(path), start=1):
        if number == 1 and line.startswith(BYTE_ORDER_MARK):
            report.byte_order_marks += 1
            line = line.removeprefix(BYTE_ORDER_MARK)
        text = decoded(line.removesuffix(b"\n"), path, number)
        report.carriage_returns += text.endswith("\r")
        text = text.removesuffix("\r")
        without = printed(text)
        tidy = tidied(without)
        report.control_characters += without != text
        report.extra_spaces += tidy != without
        yield tidy


def decoded(line: bytes, path: Path | str, number: int) -> str:
    """A line as text.

    Raises:
        InputError: it is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        code = "UTF-16" if number == 1 and line.startswith(UTF16_MARKS) else "LATIN1"
        raise InputError(
            f"{path}, line {number}: not UTF-8 (byte 0x{line[error.start]:02X} at place {error.start + 1}); "
            f"convert the file first, for instance with iconv -f {code} -t UTF-8."
        ) from error


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file with their ends, unpacked where it is packed.

    Raises:
        InputError: the file cannot be read, or has a line that no text has.
    """
    with reading(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            refuse_longer(line, path, number)
            yield line


def refuse_longer(line: bytes, path: Path | str, number: int) -> None:
    """Refuse a line that no text has.

    Raises:
        InputError: it is longer than `LONGEST_LINE`.
    """
    if len(line) > LONGEST_LINE:
        raise InputError(
            f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes; give a file with a sentence on each line."
        )


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """A file to read, unpacked where it is packed; whatever goes wrong is said in words."""
    refuse_other_than_files(path)
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] == GZIP:
                with gzip.open(file) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield file
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error


def refuse_other_than_files(path: Path) -> None:
    """Refuse what is not there, and what can be read only once."""
    if path.is_dir():
        raise InputError(f"cannot read {path}: it is a folder; name a file in it.")
    if not path.exists():
        beside = [other.name for other in sorted(path.parent.glob("*")) if other.is_file()]
        like = f"nearest: {', '.join(nearest(path.name, beside))}" if beside else "no file is in that folder"
        raise InputError(f"there is no file {path}; {like}.")
    if not path.is_file():
        raise InputError(f"cannot read {path}: it is no file, and it is read more than once; write it to a file first.")


# Pairs to judge by


def place_of(source: str, seed: int) -> int:
    """A number that is like drawn for each source text, and the same for the same text."""
    key = seed.to_bytes(8, "little", signed=True)
    return int.from_bytes(hashlib.blake2b(source.encode(), key=key, digest_size=8).digest(), "little")


def dev_limit(sources: Iterable[str], n: int, seed: int) -> int:
    """The number up to which `place_of` makes a text one of the n different ones that are kept for judging.

    Equal texts have equal places, so that no text is both learned from and judged by.
    """
    least: list[int] = []  # a heap of the n least places, the largest of them first
    among: set[int] = set()
    for source in sources:
        place = place_of(source, seed)
        if place in among or (len(least) == n and (not least or place > -least[0])):
            continue
        if len(least) == n:
            among.remove(-heapq.heappop(least))
        heapq.heappush(least, -place)
        among.add(place)
    return -least[0] if least else -1
