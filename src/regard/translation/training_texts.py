"""Lengths and scripts of the texts that a translator was trained on, and remarks on texts that differ from them.

`regard train` stores the lengths and scripts in the translator's folder.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from regard.errors import counted
from regard.text.corpus import Corpus
from regard.text.joined_corpus import JoinedCorpus
from regard.text.vocabulary import Vocabulary

UNKNOWN_LONGEST = 100
"""The longest text, in pieces, that is translated undivided if the lengths of the training texts are unknown."""

MOST_PAIRS = 100_000
"""The lengths and scripts (alphabets) of training texts are measured on this many text pairs, evenly spaced."""

PERCENT = 99.9
"""The upper limits of source lengths and of target/source length ratios are this percentile of the training texts. The
lower limit of the ratios is the percentile 100 - PERCENT."""

SMALLEST_SHARE = 0.05
"""A script (alphabet) counts as known if it has at least this share of the letters of the training texts."""

SPECIAL_PIECE = re.compile("▁?<.*>")
"""A piece whose letters are not letters of a text: a byte, a tag, the end of a text."""

SCRIPT_NAMES = {"CJK": "Chinese characters", "HIRAGANA": "kana", "KATAKANA": "kana"}
"""Names of scripts, where the Unicode name is not the usual one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingTexts:
    """Lengths and scripts of training texts; 999 of 1,000 pairs are within each limit.

    Attributes:
        longest: the largest number of pieces of a source, EOS not counted.
        smallest_ratio, largest_ratio: the limits of (target pieces) / (source pieces), EOS counted in both.
        scripts: the scripts of the sources, such as "Hangul letters", the most frequent first.
    """

    longest: int
    smallest_ratio: float
    largest_ratio: float
    scripts: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus | JoinedCorpus, source: Vocabulary) -> "TrainingTexts":
        """Measure lengths and scripts on at most MOST_PAIRS pairs of `corpus`; `source` is the source vocabulary."""
        indices = np.unique(np.linspace(0, len(corpus) - 1, MOST_PAIRS).astype(np.int64))
        ids, lengths = corpus.source.rows(indices)  # ids: the pieces of all these texts, joined
        ratios = (corpus.target.lengths(indices) + 1) / (lengths + 1)  # EOS counted
        letters_in_script = Counter[str]()
        piece_counts = np.bincount(ids, minlength=len(source))
        for piece, count in zip(source.pieces(range(len(source))), piece_counts, strict=True):
            if not SPECIAL_PIECE.fullmatch(piece):
                for letter in filter(str.isalpha, piece):
                    letters_in_script[script_of(letter)] += int(count)
        least_letters = SMALLEST_SHARE * letters_in_script.total()
        return cls(
            longest=int(np.percentile(lengths, PERCENT)),
            smallest_ratio=float(np.percentile(ratios, 100 - PERCENT)),
            largest_ratio=float(np.percentile(ratios, PERCENT)),
            scripts=tuple(name for name, n_letters in letters_in_script.most_common() if n_letters >= least_letters),
        )

    @classmethod
    def stored_in(cls, extra: Mapping[str, Any]) -> "TrainingTexts | None":
        """Read the lengths and scripts from a translator's `extra`; None = missing or invalid."""
        match extra.get("training_texts"):
            case {
                "longest": int(longest),
                "smallest_ratio": float(smallest),
                "largest_ratio": float(largest),
                "scripts": [*scripts],
            } if all(isinstance(script, str) for script in scripts):
                return cls(longest=longest, smallest_ratio=smallest, largest_ratio=largest, scripts=tuple(scripts))
        return None

    def script_remark(self, text: str) -> str | None:
        """Return a remark if most letters of a text are in scripts that are not in `scripts`, else None."""
        n_letters = Counter(map(script_of, filter(str.isalpha, text)))
        n_foreign = Counter({script: n for script, n in n_letters.items() if script not in self.scripts})
        if not self.scripts or 2 * n_foreign.total() <= n_letters.total():
            return None
        script = max(n_foreign, key=lambda name: n_foreign[name])
        return f"written in {script}; the training texts are in {' and '.join(self.scripts)}"

    def source_remarks(self, text: str, n_pieces: int) -> Iterator[str]:
        """Yield a remark if a source is in another script than the training texts, and a remark if it is too long.

        Args:
            n_pieces: the number of pieces of the source, or of its longest part if it is translated in parts.
        """
        if remark := self.script_remark(text):
            yield remark
        if n_pieces > self.longest:
            yield (
                f"longer than the training texts: {n_pieces:,} pieces, and 999 of 1,000 training texts have at most "
                f"{self.longest:,}"
            )

    def ratio_remark(self, n_source: int, n_target: int) -> Iterator[str]:
        """Yield a remark if n_target / n_source, in pieces with EOS counted, is unusually small or large."""
        if n_target / n_source < self.smallest_ratio:
            change, limit = "shorter", f"at least {math.ceil(self.smallest_ratio * n_source):,}"
        elif n_target / n_source > self.largest_ratio:
            change, limit = "longer", f"at most {math.floor(self.largest_ratio * n_source):,}"
        else:
            return
        yield (
            f"the translation is much {change} than usual: {counted(n_target, 'piece')} for the {n_source:,} of the "
            f"source; 999 of 1,000 training pairs have {limit} for as many"
        )


@cache
def script_of(letter: str) -> str:
    """Return the script of a letter, by its name in Unicode.

    >>> script_of("é"), script_of("뱀"), script_of("漢"), script_of("ひ")
    ('Latin letters', 'Hangul letters', 'Chinese characters', 'kana')
    """
    name = unicodedata.name(letter, "unnamed").split()[0]
    return SCRIPT_NAMES.get(name, f"{name.capitalize()} letters")
