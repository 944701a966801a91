"""A corpus as ids in files that are mapped into memory, so that its size may be that of the disk.

    source.ids  target.ids          the ids of all texts, one after the other
    source.ends  target.ends        where each text ends
    corpus.json                     how many there are, and of which type the ids are

`corpus.json` is written last: a folder without it is no corpus, whatever was killed while it was being written.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from regard.atomic_files import write_whole
from regard.errors import InputError
from regard.text.parallel import Report
from regard.text.vocabulary import UNK, Vocabulary

AT_ONCE = 20_000
"""Pairs that are cut into pieces at a time, on all cores."""

SIDES = "source", "target"

Ids = NDArray[np.unsignedinteger]
Ends = NDArray[np.int64]
Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The texts of one language."""

    ids: Ids
    ends: Ends

    def __getitem__(self, pair: int) -> Ids:
        """The ids of one text."""
        return self.ids[self.ends[pair] : self.ends[pair + 1]]

    def lengths(self, pairs: NDArray[np.int64]) -> Lengths:
        """How many ids some texts have; the texts themselves are not looked at."""
        return self.ends[pairs + 1] - self.ends[pairs]

    def rows(self, pairs: NDArray[np.int64]) -> tuple[Ids, Lengths]:
        """The ids of some texts, one after the other, and how many each has."""
        lengths = self.lengths(pairs)
        before = np.cumsum(lengths) - lengths
        places = np.repeat(self.ends[pairs] - before, lengths) + np.arange(lengths.sum())
        return self.ids[places], lengths


class Corpus:
    """Pairs of texts as ids, without BOS and EOS.

    Raises:
        InputError: the folder holds no corpus, or one that is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            said = json.loads((folder / "corpus.json").read_text())
            n_pairs, kind = int(said["pairs"]), np.dtype(said["dtype"])
            sides = [self._side(name, n_pairs, kind) for name in SIDES]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder} holds no corpus, or a damaged one ({error}).") from error
        self.source, self.target = sides
        self._n_pairs = n_pairs

    def _side(self, name: str, n_pairs: int, kind: np.dtype[np.unsignedinteger]) -> Side:
        ends = np.memmap(self.folder / f"{name}.ends", dtype=np.int64, mode="r")
        ids = np.memmap(self.folder / f"{name}.ids", dtype=kind, mode="r")
        if len(ends) != n_pairs + 1 or ends[-1] != len(ids):
            raise ValueError(f"{name}.ids does not have the {int(ends[-1]):,} ids of {n_pairs:,} texts")
        return Side(ids, ends)

    def __len__(self) -> int:
        return self._n_pairs

    def __getitem__(self, pair: int) -> tuple[Ids, Ids]:
        """The ids of a pair."""
        return self.source[pair], self.target[pair]

    def __repr__(self) -> str:
        sizes = f"{len(self.source.ids):,} and {len(self.target.ids):,}"
        return f"Corpus({str(self.folder)!r}, {len(self):,} pairs of {sizes} ids)"


def write_corpus(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    source: Vocabulary,
    target: Vocabulary,
    *,
    max_tokens: int,
    max_ratio: float,
    purpose: str = "to learn from",
    report: Report | None = None,
    progress: Callable[[int], None] = lambda n: None,
) -> Corpus:
    """Cut pairs into pieces and write them as ids.

    Args:
        max_tokens: pieces of the longest text that is kept, EOS not counted.
        max_ratio: how many times as long as the other the longer side of a pair may be.
        purpose: what the pairs are for, to be said where none is left.
        report: in which pairs that are kept and those left out are counted.
        progress: is told how many pairs have just been read.

    Raises:
        InputError: nothing is left.
    """
    report, kind = report or Report(), np.uint16 if max(len(source), len(target)) <= 2**16 else np.uint32
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.json").unlink(missing_ok=True)
    n_pairs = 0
    with ExitStack() as files:
        ids, ends = (
            [files.enter_context((folder / f"{s}.{what}").open("wb")) for s in SIDES] for what in ("ids", "ends")
        )
        last = [0, 0]
        for file in ends:
            file.write(np.int64(0).tobytes())
        for cut, n_read in in_pieces(pairs, source, target):
            kept = [pair for pair in cut if fits(*pair, max_tokens, max_ratio, report)]
            for side in range(2):
                last[side] = append(ids[side], ends[side], [pair[side] for pair in kept], last[side], kind)
            n_pairs += len(kept)
            progress(n_read)
        for file in (*ids, *ends):
            file.flush()
            os.fsync(file.fileno())
    report.kept += n_pairs
    if n_pairs == 0:
        raise InputError(
            f"no pair is left {purpose}: {report.left_out()}; give others, or a larger data.max_tokens or "
            "data.max_ratio."
        )
    write_whole(folder / "corpus.json", json.dumps({"pairs": n_pairs, "dtype": np.dtype(kind).name}))
    return Corpus(folder)


def in_pieces(
    pairs: Iterable[tuple[str, str]], source: Vocabulary, target: Vocabulary
) -> Iterator[tuple[list[tuple[list[int], list[int]]], int]]:
    """The ids of pairs, many at a time, and how many pairs that are."""
    pairs = iter(pairs)
    while some := list(islice(pairs, AT_ONCE)):
        sources, targets = zip(*some, strict=True)
        yield list(zip(source.encode_all(sources), target.encode_all(targets), strict=True)), len(some)


def fits(source: list[int], target: list[int], max_tokens: int, max_ratio: float, report: Report) -> bool:
    """Whether a pair is one to learn from; counts it where it is not."""
    shorter, longer = sorted((len(source), len(target)))
    if shorter == 0:
        report.empty += 1
    elif longer > max_tokens:
        report.over_long += 1
    elif longer > max_ratio * shorter:
        report.mismatched += 1
    else:
        report.unknown += UNK in source or UNK in target
        return True
    return False


def append(ids: IO[bytes], ends: IO[bytes], texts: list[list[int]], last: int, kind: type[np.unsignedinteger]) -> int:
    """Write texts behind those that are there; where the last one ends."""
    if not texts:
        return last
    stops = last + np.cumsum([len(text) for text in texts], dtype=np.int64)
    ids.write(np.fromiter((token for text in texts for token in text), dtype=kind).tobytes())
    ends.write(stops.tobytes())
    return int(stops[-1])
