"""Parallel text: two files, in which line n of the second file is the translation of line n of the first.

Files are UTF-8, plain or gzip. Byte order marks, carriage returns and control characters are removed, and runs of
spaces become one space.

Only a line feed ends a line, with or without a carriage return before it; a carriage return elsewhere, a form feed or
U+2028 counts as a space. Letters are composed (Unicode's NFC): a Mac may write 뱀 as its three parts, and é as two.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO, NoReturn

from regard.errors import InputError, reason, refuse_missing
from regard.likely_encoding import ends_within_character, likely_encoding
from regard.text.cleaning import clean_text, compose, without_control_characters

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Pair = tuple[str, str]

GZIP = b"\x1f\x8b"
"""The first two bytes of every gzip file."""

LONGEST_LINE = 2**20
"""The largest number of bytes in a line, so that a file without line ends is not read into memory as a whole."""


@dataclass(slots=True)
class Report:
    """Counts of the pairs of a corpus that were read, cleaned, left out and kept; `table` says what each field counts.

    A sign is a character that stands for a name, number or address; see placeholders.py.

    >>> print(Report(read=1000, carriage_returns=2000, empty=3, held_out=50, kept=947).table())
      1,000  pairs read
      2,000  lines with a carriage return, removed
          3  pairs with an empty text, left out
         50  pairs held out for evaluation
        947  pairs to learn from
    """

    read: int = 0
    byte_order_marks: int = 0
    carriage_returns: int = 0
    extra_spaces: int = 0
    composed: int = 0
    control_characters: int = 0
    empty: int = 0
    over_long: int = 0
    mismatched: int = 0
    held_out: int = 0
    kept: int = 0
    unknown: int = 0
    signed: int = 0
    named: int = 0

    def table(self) -> str:
        """Return a line of text for each count above 0, and always for "pairs read" and "pairs to learn from"."""
        rows = {
            "pairs read": self.read,
            "files with a byte order mark, removed": self.byte_order_marks,
            "lines with a carriage return, removed": self.carriage_returns,
            "lines with extra spaces, made one": self.extra_spaces,
            "lines with letters in parts, composed": self.composed,
            "lines with control characters, removed": self.control_characters,
            "pairs with an empty text, left out": self.empty,
            "pairs with a text that is too long, left out": self.over_long,
            "pairs of mismatched lengths, left out": self.mismatched,
            "pairs held out for evaluation": self.held_out,
            "pairs added, in which a sign replaces a name": self.named,
            "pairs to learn from": self.kept,
            "of these, pairs with a letter that is not in the vocabulary": self.unknown,
            "of these, pairs with a name, number or address in both texts, replaced by a sign": self.signed,
        }
        always = "pairs read", "pairs to learn from"
        return "\n".join(f"{number:>7,}  {label}" for label, number in rows.items() if number or label in always)

    def add(self, other: "Report") -> None:
        for name, number in asdict(other).items():
            setattr(self, name, getattr(self, name) + number)

    def left_out(self) -> str:
        """Return the counts of the pairs left out, by reason.

        >>> Report(empty=3, over_long=1000).left_out()
        '3 empty, 1,000 too long'
        """
        reasons = {"empty": self.empty, "too long": self.over_long, "of mismatched lengths": self.mismatched}
        return ", ".join(f"{number:,} {label}" for label, number in reasons.items() if number)


def paths_in(text: str) -> list[Path]:
    """Return the paths in a comma-separated text; a text that is itself the name of a file is one path."""
    return [Path(text)] if Path(text).is_file() else [Path(name) for name in text.split(",")]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Two text files whose lines are translations of each other; they are read line by line, never as a whole."""

    source: Path
    target: Path

    def pairs(self, report: Report | None = None) -> Iterator[Pair]:
        """Yield the pairs of cleaned lines in which neither line is empty; count pairs and changes in `report`."""
        report = report or Report()
        if self.source.exists() and self.target.exists() and self.source.samefile(self.target):
            raise InputError(f"{self.source} and {self.target} are one file; give the translations as the second.")
        for source, target in zip_longest(clean_lines(self.source, report), clean_lines(self.target, report)):
            if source is None or target is None:
                self.refuse_unequal()
            report.read += 1
            if source and target:
                yield source, target
            else:
                report.empty += 1
        if report.read == 0:
            raise InputError(f"{self.source} and {self.target} are empty; give files with a sentence on each line.")

    def refuse_unequal(self) -> NoReturn:
        source, target = (sum(1 for _ in raw_lines(path)) for path in (self.source, self.target))
        raise InputError(
            f"{self.source} has {source:,} lines and {self.target} has {target:,}; each line must be the translation "
            "of the same line of the other file, so both files must have the same number of lines."
        )


@dataclass(frozen=True, slots=True)
class CleanCopy:
    """A cleaned copy of a corpus in one file, so that texts that are read several times are cleaned only once.

    `write` makes the file, `pairs` reads it. A line is the source, a tab and the target, which have no tabs.

    Attributes:
        parallel: the corpus before it is cleaned.
        path: the file of the copy.
        tag: the word that is put before every source; "" = no word.
        counts: the counts of the pairs that `write` has read.
    """

    parallel: Parallel
    path: Path
    tag: str = ""
    counts: Report = field(default_factory=Report)

    def write(self) -> Iterator[Pair]:
        """Yield the cleaned pairs of the corpus and write them to `path`; the file is complete after the last pair."""
        with self.path.open("w", encoding="utf-8", newline="\n") as file:
            for source, target in self.parallel.pairs(self.counts):
                tagged = f"{self.tag} {source}" if self.tag else source
                file.write(f"{tagged}\t{target}\n")
                yield tagged, target

    def pairs(self) -> Iterator[Pair]:
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                source, _, target = line[:-1].partition("\t")
                yield source, target


# Reading the lines of one file


def clean_lines(path: Path, report: Report | None = None) -> Iterator[str]:
    """Yield the lines of a file as clean text; count the changes in `report`."""
    report, has_utf8 = report or Report(), False
    for number, line in enumerate(raw_lines(path), start=1):
        if number == 1 and line.startswith(BYTE_ORDER_MARK):
            report.byte_order_marks += 1
            line = line.removeprefix(BYTE_ORDER_MARK)
        text = decode_line(line.removesuffix(b"\n"), path, number, has_utf8)
        has_utf8 = has_utf8 or not text.isascii()
        report.carriage_returns += text.endswith("\r")
        text = text.removesuffix("\r")
        printable = without_control_characters(text)
        with_composed = compose(printable)
        clean = clean_text(with_composed)
        report.control_characters += printable != text
        report.composed += with_composed != printable
        report.extra_spaces += clean != with_composed
        yield clean


def decode_line(line: bytes, path: Path | str, number: int, has_utf8: bool = False) -> str:
    """Decode a line from UTF-8, or raise InputError that says what to convert.

    `has_utf8`: whether an earlier line has letters outside ASCII, in UTF-8. Then only some lines need conversion.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        if ends_within_character(line):
            raise InputError(
                f"{path}, line {number}: ends in the middle of a character, so a part of the text is missing; copy it "
                "again."
            ) from error
        to_convert = "the file first"
        if has_utf8:
            to_convert = "only the lines that are not UTF-8, since earlier lines are UTF-8"
        raise InputError(
            f"{path}, line {number}: not UTF-8 (byte 0x{line[error.start]:02X} at position {error.start + 1}); "
            f"convert {to_convert}, for instance with iconv -f {likely_encoding(line)} -t UTF-8."
        ) from error


def raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a plain or gzip file, line ends included."""
    with open_plain_or_gzip(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            refuse_longer(line, path, number)
            yield line


def refuse_longer(line: bytes, path: Path | str, number: int) -> None:
    if len(line) > LONGEST_LINE:
        raise InputError(
            f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes; give a file with a sentence on each line."
        )


@contextmanager
def open_plain_or_gzip(path: Path) -> Iterator[IO[bytes]]:
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
    """Raise InputError unless the path is a regular file; a pipe, for example, cannot be read a second time."""
    if path.is_dir():
        raise InputError(f"cannot read {path}: it is a folder; name a file in it.")
    refuse_missing(path)
    if not path.is_file():
        raise InputError(
            f"cannot read {path}: it is a pipe or a device, and the text is read twice; write it to a file."
        )
