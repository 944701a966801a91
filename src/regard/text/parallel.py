"""Parallel text: two files, in which each line of the one is the translation of the same line of the other.

Files come as they are, UTF-8, plain or gzip. What can be tidied is: byte order marks, carriage returns, runs of spaces,
control characters. A pair with an empty side is left out and counted. What cannot be read is refused by its line.
"""

import gzip
import hashlib
import heapq
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from regard.errors import InputError

CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f\ufeff]")
"""Characters that are no text; those that separate words are spaces to `str.split`."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Report:
    """What became of the pairs of a corpus."""

    read: int = 0
    """Pairs in the files."""

    empty: int = 0
    """Pairs with an empty side, left out."""

    over_long: int = 0
    """Pairs with a side of more pieces than a sentence may have, left out."""

    mismatched: int = 0
    """Pairs with sides of too different lengths, left out."""

    kept: int = 0
    """Pairs that are learned from."""

    def as_dict(self) -> dict[str, int]:
        """By name."""
        return asdict(self)

    def __str__(self) -> str:
        out = {"empty": self.empty, "over-long": self.over_long, "of mismatched lengths": self.mismatched}
        left_out = ", ".join(f"{number:,} {what}" for what, number in out.items() if number) or "none"
        return f"{self.read:,} pairs read, {self.kept:,} kept; left out: {left_out}"


@dataclass(frozen=True, slots=True)
class Parallel:
    """Two files of translations of each other, gone through line by line as often as needed, never held as a whole."""

    source: Path
    target: Path

    def pairs(self, report: Report | None = None) -> Iterator[tuple[str, str]]:
        """The tidied pairs, without those that have an empty side.

        Args:
            report: in which the pairs that are read and those left out are counted.

        Raises:
            InputError: a file that cannot be read, is not UTF-8 or is empty, or files of unequal numbers of lines.
        """
        report = report or Report()
        if same_file(self.source, self.target):
            raise InputError(f"{self.source} and {self.target} are one file; give the translations as the second one.")
        for source, target in zip_longest(tidy_lines(self.source), tidy_lines(self.target)):
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
        source, target = (sum(1 for _ in tidy_lines(path)) for path in (self.source, self.target))
        raise InputError(
            f"{self.source} has {source:,} lines and {self.target} has {target:,}; line by line they must be "
            "translations of each other, so both must have as many."
        )


def same_file(source: Path, target: Path) -> bool:
    """Whether two paths lead to one file that exists."""
    return source.exists() and target.exists() and source.samefile(target)


def tidy_lines(path: Path) -> Iterator[str]:
    """The lines of a file as tidy text: words with single spaces between them.

    Raises:
        InputError: the file cannot be read, or a line is not UTF-8.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    text = (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).decode()
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path}, line {number}: not UTF-8 (byte 0x{error.object[error.start]:02X} at place "
                        f"{error.start + 1}); convert the file first, for instance with iconv -f LATIN1 -t UTF-8."
                    ) from error
                yield tidied(text)
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error


def tidied(text: str) -> str:
    """Text without control characters, with single spaces between its words.

    >>> tidied("  ein\\u00a0 Hund\\r\\n")
    'ein Hund'
    """
    return " ".join(CONTROL.sub("", text).split())


# Pairs to judge by


def place_of(source: str, seed: int) -> int:
    """A number that is like drawn for each source text, and the same for the same text."""
    key = seed.to_bytes(8, "little", signed=True)
    return int.from_bytes(hashlib.blake2b(source.encode(), key=key, digest_size=8).digest(), "little")


def dev_limit(sources: Iterable[str], n: int, seed: int) -> int:
    """The number up to which `place_of` makes a text one of the about n that are kept for judging.

    Equal texts have equal places, so that no text is both learned from and judged by.
    """
    least: list[int] = []  # a heap of the n least places, the largest of them first
    for source in sources:
        place = -place_of(source, seed)
        if len(least) < n:
            heapq.heappush(least, place)
        elif place > least[0]:
            heapq.heapreplace(least, place)
    return -least[0] if least else -1
