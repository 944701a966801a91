"""A corpus of ids in memory-mapped files, so that it may be larger than the memory.

    source.ids  target.ids          the ids of all texts, concatenated
    source.ends  target.ends        the end of each text among the ids
    corpus.json                     the number of pairs and the type of the ids

`corpus.json` is written last: a folder without it is not a corpus, for instance after the writer was killed.
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

from regard.atomic_files import write_atomically
from regard.errors import InputError
from regard.text.parallel import Report
from regard.text.vocabulary import UNK, Vocabulary

AT_ONCE = 20_000
"""Pairs that are encoded at a time, on all cores."""

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
        """Return the ids of one text."""
        return self.ids[self.ends[pair] : self.ends[pair + 1]]

    def lengths(self, pairs: NDArray[np.int64]) -> Lengths:
        """Return the number of ids in each text, without reading the ids."""
        return self.ends[pairs + 1] - self.ends[pairs]

    def rows(self, pairs: NDArray[np.int64]) -> tuple[Ids, Lengths]:
        """Return the concatenated ids of texts, and the number of ids in each."""
        lengths = self.lengths(pairs)
        before = np.cumsum(lengths) - lengths
        places = np.repeat(self.ends[pairs] - before, lengths) + np.arange(lengths.sum())
        return self.ids[places], lengths


class Corpus:
    """Pairs of texts as ids, without BOS and EOS.

    Raises:
        InputError: the folder does not hold a corpus, or a damaged one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            header = json.loads((folder / "corpus.json").read_text())
            n_pairs, dtype = int(header["pairs"]), np.dtype(header["dtype"])
            sides = [self._side(name, n_pairs, dtype) for name in SIDES]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder} holds no corpus, or a damaged one ({error}).") from error
        self.source, self.target = sides
        self._n_pairs = n_pairs

    def _side(self, name: str, n_pairs: int, dtype: np.dtype[np.unsignedinteger]) -> Side:
        ends = np.memmap(self.folder / f"{name}.ends", dtype=np.int64, mode="r")
        ids = np.memmap(self.folder / f"{name}.ids", dtype=dtype, mode="r")
        if len(ends) != n_pairs + 1 or ends[-1] != len(ids):
            raise ValueError(f"{name}.ids does not have the {int(ends[-1]):,} ids of {n_pairs:,} texts")
        return Side(ids, ends)

    def __len__(self) -> int:
        return self._n_pairs

    def __getitem__(self, pair: int) -> tuple[Ids, Ids]:
        """Return the ids of a pair."""
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
    """Encode pairs and write them as a corpus.

    Args:
        max_tokens: the most pieces of a text that is kept, EOS not counted.
        max_ratio: the largest ratio of the longer side of a pair to the shorter one.
        purpose: the use of the pairs, for the message when no pair is left.
        report: counts the pairs that are kept and those that are left out.
        progress: called with the number of pairs just read.

    Raises:
        InputError: no pair is left.
    """
    report, dtype = report or Report(), np.uint16 if max(len(source), len(target)) <= 2**16 else np.uint32
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.json").unlink(missing_ok=True)
    n_pairs = 0
    with ExitStack() as files:
        ids, ends = (
            [files.enter_context((folder / f"{side}.{suffix}").open("wb")) for side in SIDES]
            for suffix in ("ids", "ends")
        )
        end = [0, 0]
        for file in ends:
            file.write(np.int64(0).tobytes())
        for encoded in encoded_chunks(pairs, source, target):
            kept = [pair for pair in encoded if fits(*pair, max_tokens, max_ratio, report)]
            for side in range(2):
                end[side] = append(ids[side], ends[side], [pair[side] for pair in kept], end[side], dtype)
            n_pairs += len(kept)
            progress(len(encoded))
        for file in (*ids, *ends):
            file.flush()
            os.fsync(file.fileno())
    report.kept += n_pairs
    if n_pairs == 0:
        raise InputError(
            f"no pair is left {purpose}: {report.left_out()}; give others, or a larger data.max_tokens or "
            "data.max_ratio."
        )
    write_atomically(folder / "corpus.json", json.dumps({"pairs": n_pairs, "dtype": np.dtype(dtype).name}))
    return Corpus(folder)


def encoded_chunks(
    pairs: Iterable[tuple[str, str]], source: Vocabulary, target: Vocabulary
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Yield the ids of pairs, many pairs at a time."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, AT_ONCE)):
        sources, targets = zip(*chunk, strict=True)
        yield list(zip(source.encode_all(sources), target.encode_all(targets), strict=True))


def fits(source: list[int], target: list[int], max_tokens: int, max_ratio: float, report: Report) -> bool:
    """Return whether a pair is kept; the report counts it under the reason if it is left out."""
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


def append(ids: IO[bytes], ends: IO[bytes], texts: list[list[int]], end: int, dtype: type[np.unsignedinteger]) -> int:
    """Append texts to the files of one side, which hold `end` ids so far; return the number of ids they hold then."""
    if not texts:
        return end
    new_ends = end + np.cumsum([len(text) for text in texts], dtype=np.int64)
    ids.write(np.fromiter((token for text in texts for token in text), dtype=dtype).tobytes())
    ends.write(new_ends.tobytes())
    return int(new_ends[-1])
