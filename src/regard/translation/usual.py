"""Limits beyond which a text is unlike a translator's training texts, or a translation is improbable.

    usual pieces = first + per_letter × letters        letters: the number of all characters but spaces
    surplus      = (pieces - usual pieces) / √letters  large if words are rare or foreign
    score        = the mean log-probability of the pieces of a translation

The constant `first` and the slope `per_letter` are fitted by weighted least squares to the dev texts: texts like the
training texts, but unknown to the model. The number of pieces of a text is a sum
over its words, so its standard deviation grows with √letters. After division by √letters, one limit is right for short
and long texts. 99 of 100 dev texts are within each limit. The translator's folder stores the limits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

PERCENTILE = 1
"""How many of 100 dev texts are beyond a limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsualLimits:
    """The limits beyond which a source or a translation is unusual.

    Attributes:
        first, per_letter: constant and slope: a source usually has first + per_letter × letters subword pieces.
        surplus: the largest usual value of (pieces - usual pieces) / √letters.
        score: the smallest usual mean log-probability of a translation's pieces, in nats.
    """

    first: float
    per_letter: float
    surplus: float
    score: float

    @classmethod
    def of(cls, letters: Sequence[int], pieces: Sequence[int], scores: Sequence[float]) -> "UsualLimits | None":
        """Return the limits of the dev texts; None = no dev source has letters.

        Args:
            letters: the number of letters of each dev source. A source without letters counts only in `scores`.
            pieces: the number of subword pieces of each dev source.
            scores: the mean log-probability of the pieces of each source's translation.
        """
        has_letters = np.array(letters) > 0
        n_letters = np.array(letters)[has_letters]
        n_pieces = np.array(pieces)[has_letters]
        if not len(n_letters):
            return None
        first, per_letter = 0.0, float(n_pieces.sum() / n_letters.sum())
        if len(set(n_letters.tolist())) > 1:  # two lengths determine a line
            # polyfit multiplies each difference by its weight w: 1 / (standard deviation of the number of pieces)
            per_letter, first = map(float, np.polyfit(n_letters, n_pieces, deg=1, w=n_letters**-0.5))
        surplus = (n_pieces - first - per_letter * n_letters) / n_letters**0.5
        return cls(
            first=first,
            per_letter=per_letter,
            surplus=float(np.percentile(surplus, 100 - PERCENTILE)),
            score=float(np.percentile(scores, PERCENTILE)),
        )

    @classmethod
    def stored_in(cls, extra: Mapping[str, Any]) -> "UsualLimits | None":
        """Read the limits of unusual texts from a translator's `extra`; None = missing or invalid."""
        values = extra.get("usual")
        names = [field.name for field in fields(cls)]
        if not isinstance(values, dict) or not all(isinstance(values.get(name), float) for name in names):
            return None
        return cls(**{name: values[name] for name in names})

    def piece_count_remark(self, n_letters: int, n_pieces: int, n_parts: int = 1) -> Iterator[str]:
        """Yield a remark if a source has unusually many subword pieces for its number of letters.

        Args:
            n_parts: the number of sentences that a long source is translated in.
        """
        n_usual = self.first * n_parts + self.per_letter * n_letters
        if n_pieces - n_usual > self.surplus * n_letters**0.5:
            yield (
                f"unlike the training texts: {n_pieces:,} pieces for {n_letters:,} letters; about "
                f"{max(n_usual, 1):,.0f} are usual"
            )

    def probability_remark(self, score: float) -> Iterator[str]:
        """Yield a remark if `score`, the mean log-probability of a translation's pieces, is unusually low."""
        if score < self.score:
            yield (
                f"the translation is less probable than usual: score {score:.2f}, and 99 of 100 dev texts have at "
                f"least {self.score:.2f}"
            )
