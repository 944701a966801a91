"""A corpus: pairs of texts as token ids in memory-mapped files, which may be larger than memory.

    source.ids  target.ids          the ids of all texts, concatenated
    source.ends  target.ends        0, and then for each text the index in the ids after its last id
    corpus.json                     the number of pairs and the dtype of the ids

`corpus.json` is written last: a folder without it is incomplete.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.atomic_files import write_atomically
from regard.errors import InputError
from regard.json_file import read_json
from regard.text.keyed_random import Integers, permutation
from regard.text.parallel import Pair, Report
from regard.text.share import ALONE, Share
from regard.text.vocabulary import UNK, Vocabulary

PAIRS_PER_CHUNK = 20_000
"""The number of pairs that a process encodes at a time."""

SIDES = "source", "target"

DTYPES: dict[str, type[np.unsignedinteger]] = {"uint16": np.uint16, "uint32": np.uint32}

Ids = NDArray[np.unsignedinteger]
"""The token ids of several texts, concatenated."""

Lengths = NDArray[np.int64]
"""The number of ids in each text."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The texts of a corpus in one language (all sources, or all targets), as token ids.

    Attributes:
        ids: the ids of all texts, concatenated.
        ends: 0, and then for each text the index in `ids` after its last id: text n is `ids[ends[n] : ends[n + 1]]`.
        path: the file of the ids, which error messages name.
        n_tokens: the size of the vocabulary; None = ids are not checked.
    """

    ids: Ids
    ends: NDArray[np.int64]
    path: Path = Path()
    n_tokens: int | None = None

    def __getitem__(self, pair: int) -> Ids:
        return self.ids[self.ends[pair] : self.ends[pair + 1]]

    def lengths(self, pairs: NDArray[np.int64]) -> Lengths:
        """Return the number of ids in each text whose index is in `pairs`, without reading the ids."""
        return self.ends[pairs + 1] - self.ends[pairs]

    def rows(self, pairs: NDArray[np.int64]) -> tuple[Ids, Lengths]:
        """Return the ids of the texts with the indices `pairs`, concatenated, and the number of ids in each text."""
        lengths = self.lengths(pairs)
        before = np.cumsum(lengths) - lengths  # for each text, the number of ids of the texts before it
        offsets = self.ends[pairs] - before  # from a text's place in the result to its place in self.ids
        ids = self.ids[np.arange(lengths.sum()) + np.repeat(offsets, lengths)]
        if self.n_tokens is not None and ids.max(initial=0) >= self.n_tokens:
            # parents[1] is a training run's folder `data`, which is made from the text files
            raise InputError(
                f"{self.path} is damaged: it has the id {ids.max():,}, and the vocabulary has {self.n_tokens:,} "
                f"pieces; delete {self.path.parents[1]}, and the same command makes it again."
            )
        return ids, lengths


class Corpus:
    """The pairs of texts in a corpus folder, as ids without BOS and EOS.

    Args:
        n_tokens: the sizes of the source and the target vocabulary. Reading an id that is not in the vocabulary raises
            InputError; None = ids are not checked.
    """

    def __init__(self, folder: Path, n_tokens: tuple[int | None, int | None] = (None, None)) -> None:
        self.folder = folder
        try:
            header = read_json(folder / "corpus.json")
            n_pairs, dtype = header["pairs"], DTYPES[header["dtype"]]
            sides = [self._side(name, n_pairs, dtype, size) for name, size in zip(SIDES, n_tokens, strict=True)]
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise InputError(f"{folder} is not a corpus, or is damaged ({error}).") from error
        self.source, self.target = sides
        self._n_pairs = n_pairs

    def _side(self, name: str, n_pairs: int, dtype: type[np.unsignedinteger], n_tokens: int | None) -> Side:
        path = self.folder / f"{name}.ids"
        ends = np.memmap(self.folder / f"{name}.ends", dtype=np.int64, mode="r")
        ids = np.memmap(path, dtype=dtype, mode="r")
        if len(ends) != n_pairs + 1 or ends[-1] != len(ids):
            raise ValueError(f"{name}.ids does not have the {int(ends[-1]):,} ids of {n_pairs:,} texts")
        if ends[0] != 0 or not bool((ends[1:] > ends[:-1]).all()):
            raise ValueError(f"the numbers in {name}.ends do not ascend from 0")
        return Side(ids, ends, path, n_tokens)

    def __len__(self) -> int:
        return self._n_pairs

    def __getitem__(self, pair: int) -> tuple[Ids, Ids]:
        return self.source[pair], self.target[pair]

    def order(self, seed: int, epoch: int) -> Integers:
        """Return the indices of all pairs of texts in random order; every epoch has another order."""
        return permutation(len(self), seed, epoch)


def write_corpus(
    folder: Path,
    pairs: Iterable[Pair],
    source: Vocabulary,
    target: Vocabulary,
    *,
    max_tokens: int,
    max_ratio: float,
    purpose: str = "to learn from",
    report: Report | None = None,
    progress: Callable[[int], None] = lambda n: None,
    share: Share = ALONE,
) -> Corpus:
    """Encode pairs of texts and write them as a corpus, but leave out empty, too long and mismatched pairs.

    Args:
        max_tokens: the largest number of pieces in a text, EOS not counted.
        max_ratio: the largest ratio of the longer text of a pair to the shorter one, in pieces.
        purpose: the use of the pairs, for the message "no pair is left to learn from".
        report: its counts grow by the number of pairs kept, and by the number of pairs left out for each reason.
        progress: called after each chunk of pairs with the number of pairs in it.
        share: the part of the pairs that this process encodes. The process receives the ids of the other pairs from the
            other processes, which call this function with the same pairs; each process writes the whole corpus.
    """
    report = report or Report()
    dtype = np.uint16 if max(len(source), len(target)) <= 2**16 else np.uint32
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.json").unlink(missing_ok=True)
    n_kept_before, pairs = report.kept, iter(pairs)
    with ExitStack() as files:
        id_files = [files.enter_context((folder / f"{side}.ids").open("wb")) for side in SIDES]
        end_files = [files.enter_context((folder / f"{side}.ends").open("wb")) for side in SIDES]
        n_ids = [0, 0]  # in the files of the sources and of the targets
        for file in end_files:
            file.write(np.int64(0).tobytes())
        while chunk := list(islice(pairs, PAIRS_PER_CHUNK * share.n)):
            encoded = encode_pairs(share.own(chunk), source, target, max_tokens, max_ratio, dtype)
            for sides, counts in share.exchange(encoded):
                for side, (ids, lengths) in enumerate(sides):
                    id_files[side].write(ids.tobytes())
                    end_files[side].write((n_ids[side] + np.cumsum(lengths)).tobytes())
                    n_ids[side] += len(ids)
                report.add(counts)
            progress(len(chunk))
        for file in (*id_files, *end_files):
            file.flush()
            os.fsync(file.fileno())
    n_pairs = report.kept - n_kept_before
    if n_pairs == 0:
        raise InputError(
            f"no pair is left {purpose}: {report.left_out()}; give other files, or a larger data.max_tokens or "
            "data.max_ratio."
        )
    write_atomically(folder / "corpus.json", json.dumps({"pairs": n_pairs, "dtype": np.dtype(dtype).name}))
    return Corpus(folder)


def encode_pairs(
    pairs: Sequence[Pair],
    source: Vocabulary,
    target: Vocabulary,
    max_tokens: int,
    max_ratio: float,
    dtype: type[np.unsignedinteger],
) -> tuple[list[tuple[Ids, Lengths]], Report]:
    """Return (ids, lengths) of the sources and of the targets, and the counts of the pairs kept and left out."""
    report = Report()
    sources = source.encode_all([source_text for source_text, _ in pairs])
    targets = target.encode_all([target_text for _, target_text in pairs])
    kept = [pair for pair in zip(sources, targets, strict=True) if fits(*pair, max_tokens, max_ratio, report)]
    report.kept = len(kept)
    sides = []
    for texts in ([source_ids for source_ids, _ in kept], [target_ids for _, target_ids in kept]):
        sides.append((np.fromiter(chain.from_iterable(texts), dtype), np.fromiter(map(len, texts), np.int64)))
    return sides, report


def fits(source: list[int], target: list[int], max_tokens: int, max_ratio: float, report: Report) -> bool:
    """Return whether a pair is kept; count it in `report` if it is left out (by reason) or has an unknown piece."""
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
