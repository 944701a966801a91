"""A cleaned copy of a corpus in one file, so that texts that are read several times are cleaned only once.

A line of the copy is the source, a tab and the target; clean text has no tabs and no line ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.text.parallel import Parallel, Report

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CleanCopy:
    """The cleaned copy of a corpus in a file: `write` makes the file, `pairs` reads it.

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
        """Clean the pairs of the corpus, write them to the copy, and yield them; afterwards the copy is complete."""
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
