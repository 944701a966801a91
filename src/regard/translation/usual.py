"""Limits below which a text is unlike a translator's training texts, or a translation is improbable.

    letters a piece = number of characters without spaces / number of subword pieces; low if words are rare or foreign
    score           = the mean log-probability of the pieces of a translation

The limits are the first percentiles of both numbers over the dev texts: 99 of 100 dev texts have larger numbers. When
training ends, they are stored in the translator's folder.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PERCENTILE = 1
"""The limits are this percentile of the letters per piece, and of the scores, measured on the dev texts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsualLimits:
    """The limits below which a source or a translation is unusual: 99 of 100 dev texts are above each limit.

    Attributes:
        letters_a_piece: the limit of the number of letters per subword piece of a source.
        score: the limit of the mean log-probability of a translation's pieces, in nats.
    """

    letters_a_piece: float
    score: float

    @classmethod
    def of(cls, letters_a_piece: Sequence[float], scores: Sequence[float]) -> "UsualLimits | None":
        """Return the limits: the first percentile of each argument; None = there are no dev texts.

        Args:
            letters_a_piece: for each dev text, the number of letters per subword piece of its source.
            scores: for each dev text, the mean log-probability of its translation's pieces.
        """
        if not scores:
            return None
        limits = [float(np.percentile(numbers, PERCENTILE)) for numbers in (letters_a_piece, scores)]
        return cls(letters_a_piece=limits[0], score=limits[1])

    @classmethod
    def stored_in(cls, extra: Mapping[str, Any]) -> "UsualLimits | None":
        """Return the limits in a translator's `extra`; None = they are missing or invalid."""
        values = extra.get("usual")
        names = "letters_a_piece", "score"
        if not isinstance(values, dict) or not all(isinstance(values.get(name), float) for name in names):
            return None
        return cls(**{name: values[name] for name in names})

    def rare_pieces(self, letters_a_piece: float) -> Iterator[str]:
        """Yield a remark if `letters_a_piece`, the letters per piece of a source, is below its limit."""
        if letters_a_piece < self.letters_a_piece:
            yield (
                f"unlike the training texts: {letters_a_piece:.2f} letters a piece, and 99 of 100 dev texts have at "
                f"least {self.letters_a_piece:.2f}"
            )

    def improbable(self, score: float) -> Iterator[str]:
        """Yield a remark if `score`, the mean log-probability of a translation's pieces, is below its limit."""
        if score < self.score:
            yield (
                f"the translation is less probable than usual: score {score:.2f}, and 99 of 100 dev texts have at "
                f"least {self.score:.2f}"
            )
