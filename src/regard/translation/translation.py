"""A translation: its text, its probability, and what the model attended to while it wrote the text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from regard.tracing.trace import Trace
from regard.translation.alignment import Alignment

DIGITS = 6
"""Decimals of the numbers in a record: what float32 holds."""


@runtime_checkable
class TranslationReader(Protocol):
    """The methods of a translator that its translations call."""

    def align(self, translations: Sequence["Translation"]) -> list[Alignment]:
        """Align the words of translations with the words of their sources."""

    def trace(self, translation: "Translation") -> Trace:
        """Trace the attention of a translation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Translation:
    """A translator's translation of one text.

    Attributes:
        source: the text.
        text: its translation; empty for a text without a word.
        score: the number by which the search ranked it.
        log_probability: log P(text | source) in nats: the sum over the tokens, EOS included, without penalties.
        source_ids, source_pieces: the pieces that the model read, EOS last.
        target_ids, target_pieces: the pieces that it wrote, without BOS and EOS.
        unknown: characters of the source that the translator does not know.
        left_out: how many pieces at the end of a source that is too long were not read.
        cut: whether the text ended because it had reached the largest number of pieces.
        candidates: the best translations found, this one first; as many as the search was asked for.
        translator: the translator that made it.
    """

    source: str
    text: str
    score: float
    log_probability: float
    source_ids: tuple[int, ...]
    source_pieces: tuple[str, ...]
    target_ids: tuple[int, ...]
    target_pieces: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    left_out: int = 0
    cut: bool = False
    candidates: tuple["Translation", ...] = ()
    translator: TranslationReader = field(repr=False)

    @cached_property
    def alignment(self) -> Alignment:
        """The source words that each word attended to; `Translator.align` reads many translations at once."""
        return self.translator.align([self])[0]

    @cached_property
    def trace(self) -> Trace:
        """The attention in every layer and head while the model reads the translation once more."""
        return self.translator.trace(self)

    def record(self, alignment: Alignment | None = None) -> dict[str, Any]:
        """Return the translation as plain values for JSON, with this alignment, or else its own."""
        return {"source": self.source, **candidate_record(self)} | {
            "unknown": list(self.unknown),
            **alignment_record(alignment or self.alignment),
            "candidates": [candidate_record(candidate) for candidate in self.candidates],
        }

    def __repr__(self) -> str:
        return f"Translation({self.source!r} → {self.text!r}, log_probability={self.log_probability:.3f})"


def candidate_record(translation: Translation) -> dict[str, Any]:
    """Return the text of a translation with its score and its log-probability."""
    return {
        "text": translation.text,
        "score": round(translation.score, DIGITS),
        "log_probability": round(translation.log_probability, DIGITS),
    }


def alignment_record(alignment: Alignment) -> dict[str, Any]:
    """Return an alignment as plain values; rows of weights are target words or pieces, columns the source's."""
    return {
        "source_words": list(alignment.source_words),
        "target_words": list(alignment.target_words),
        "alignment": [list(pair) for pair in sorted(alignment.pairs)],
        "weights": rounded(alignment.weights.tolist()),
        "pieces": {
            "source": list(alignment.source_pieces),
            "target": list(alignment.target_pieces),
            "weights": rounded(alignment.piece_weights.tolist()),
        },
    }


def rounded(rows: list[list[float]]) -> list[list[float]]:
    """Round weights to the decimals that float32 holds."""
    return [[round(weight, DIGITS) for weight in row] for row in rows]
