"""A translation: the text, how likely it is, and what it looked at."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regard.tracing.trace import Trace
from regard.translation.alignment import Alignment

if TYPE_CHECKING:
    from regard.translation.translator import Translator

DIGITS = 6
"""Decimals of the numbers in a record: what float32 holds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Translation:
    """What a translator made of one text.

    Attributes:
        source: the text as it was given.
        text: its translation; empty for a text without a word.
        score: what the search ranked it by.
        log_probability: log P(text | source) in nats, EOS with it: a sum over tokens, no penalty in it.
        source_ids, source_pieces: the pieces that the model read, EOS last.
        target_ids, target_pieces: the pieces that it wrote, without BOS and EOS.
        unknown: characters of the source that the translator does not know.
        left_out: how many pieces at the end of the source were not read, as it was too long.
        cut: whether the text was ended because it had reached the longest that is looked for.
        candidates: the best translations found, this one first; as many as the search was asked for.
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
    translator: "Translator" = field(repr=False)

    @cached_property
    def alignment(self) -> Alignment:
        """Which source words each word looked at; `Translator.align` does many at once."""
        return self.translator.align([self])[0]

    @cached_property
    def trace(self) -> Trace:
        """Who looked at whom, in every layer and head, while the translation was read once more."""
        return self.translator.trace(self)

    def record(self, alignment: Alignment | None = None) -> dict[str, Any]:
        """All of it as plain values, for JSON; with this alignment, or its own."""
        return {"source": self.source, **brief(self)} | {
            "unknown": list(self.unknown),
            **aligned(alignment or self.alignment),
            "candidates": [brief(candidate) for candidate in self.candidates],
        }

    def __repr__(self) -> str:
        return f"Translation({self.source!r} → {self.text!r}, log_probability={self.log_probability:.3f})"


def brief(translation: Translation) -> dict[str, Any]:
    """A translation's text and what it is worth."""
    return {
        "text": translation.text,
        "score": round(translation.score, DIGITS),
        "log_probability": round(translation.log_probability, DIGITS),
    }


def aligned(alignment: Alignment) -> dict[str, Any]:
    """An alignment as plain values; rows of weights are the target's, columns the source's."""
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
    """Weights with as many decimals as they hold."""
    return [[round(weight, DIGITS) for weight in row] for row in rows]
