"""Limits below which a text is unlike a translator's training texts, or a translation is improbable.

    letters a piece = number of characters without spaces / number of subword pieces; low if words are rare or foreign
    score           = the mean log-probability of the pieces of a translation

The limits are the first percentiles of both numbers over the dev texts: 99 of 100 dev texts have larger numbers. When
training ends, they are stored in the translator's folder.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

PERCENTILE = 1
"""The limits are this percentile of the letters per piece, and of the scores, measured on the dev texts."""


@runtime_checkable
class Measured(Protocol):
    """The attributes of a translation from which its letters per piece and its score are computed."""

    @property
    def source(self) -> str:
        """The source text."""

    @property
    def source_ids(self) -> tuple[int, ...]:
        """The ids of the subword pieces of the source text, EOS last."""

    @property
    def mean_log_probability(self) -> float:
        """The mean log-probability of the pieces of the translation, in nats."""


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
    def of(cls, translations: Sequence[Measured]) -> "UsualLimits | None":
        """Return the limits measured on translations of the dev texts; None = there are no dev texts."""
        if not translations:
            return None
        letters = [letters_a_piece(one) for one in translations]
        scores = [one.mean_log_probability for one in translations]
        return cls(
            letters_a_piece=float(np.percentile(letters, PERCENTILE)), score=float(np.percentile(scores, PERCENTILE))
        )

    @classmethod
    def stored_in(cls, extra: Mapping[str, Any]) -> "UsualLimits | None":
        """Return the limits that were stored with a translator; None = they are missing or invalid.

        Args:
            extra: the values stored with the translator: `Translator.extra`.
        """
        values = extra.get("usual")
        names = "letters_a_piece", "score"
        if not isinstance(values, dict) or not all(isinstance(values.get(name), float) for name in names):
            return None
        return cls(**{name: values[name] for name in names})

    def differences(self, translation: Measured) -> Iterator[str]:
        """Yield a remark if the source has too few letters per piece, and one if the translation is too improbable."""
        if len(translation.source_ids) < 2:  # EOS alone: an empty text
            return
        letters, score = letters_a_piece(translation), translation.mean_log_probability
        if letters < self.letters_a_piece:
            yield (
                f"unlike the training texts: {letters:.2f} letters a piece, and 99 of 100 dev texts have at least "
                f"{self.letters_a_piece:.2f}"
            )
        if score < self.score:
            yield (
                f"the translation is less probable than usual: score {score:.2f}, and 99 of 100 dev texts have at "
                f"least {self.score:.2f}"
            )


def letters_a_piece(translation: Measured) -> float:
    """Return the mean number of characters per subword piece of the source; spaces are not counted."""
    return len("".join(translation.source.split())) / max(len(translation.source_ids) - 1, 1)
