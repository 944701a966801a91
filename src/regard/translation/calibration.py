"""Calibration of scores: the chrF that is expected of a translation with a given mean log-probability.

    expected chrF = f(mean log-probability of the translation's pieces)

chrF is the likeness to a reference translation, measured by character n-grams. f is fitted to dev texts, which the
model was not trained on. Isotonic regression divides the texts, in the order of their scores, into groups whose mean
chrF rises from group to group; then groups of fewer than `FEWEST_IN_GROUP` texts are joined with neighbours. f connects
the centres of the groups (mean score, mean chrF) by straight lines, and is constant beyond the outermost centres. When
training ends, the centres are stored in the translator's folder.

Source: Ayer et al. 1955, "An empirical distribution function for sampling with incomplete information" (pool adjacent
violators); Zadrozny & Elkan 2002, "Transforming classifier scores into accurate multiclass probability estimates".
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard

import numpy as np

from regard.errors import import_extra

FEWEST_TEXTS = 20
"""Scores are calibrated only if there are at least this many dev texts."""

FEWEST_IN_GROUP = 5
"""The smallest number of dev texts whose mean score and mean chrF become one point of the calibration."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A function from the score of a translation, its mean log-probability, to its expected chrF, fitted to dev texts.

    Attributes:
        mean_log_probability: the x of each point that the function connects: the mean score of several dev texts.
        chrf: the y of each point: the mean chrF of these texts, from 0 to 100. Both rise from point to point.
    """

    mean_log_probability: tuple[float, ...]
    chrf: tuple[float, ...]

    @classmethod
    def of(cls, mean_log_probabilities: Sequence[float], chrf: Sequence[float]) -> "Calibration | None":
        """Fit a calibration to the scores and chrF of dev translations; None = fewer than `FEWEST_TEXTS` texts."""
        if len(chrf) < FEWEST_TEXTS:
            return None
        # texts of equal score: largest chrF first, so that their chrF never rises and `rising_groups` joins them
        texts = sorted(zip(mean_log_probabilities, chrf, strict=True), key=lambda text: (text[0], -text[1]))
        centres = [np.mean(group, axis=0) for group in join_small_groups(rising_groups(texts))]
        return cls(
            mean_log_probability=tuple(float(centre[0]) for centre in centres),
            chrf=tuple(float(centre[1]) for centre in centres),
        )

    @classmethod
    def stored_in(cls, extra: Mapping[str, Any]) -> "Calibration | None":
        """Return the calibration in `extra`, the values stored with a translator; None = missing or invalid."""
        match extra.get("calibration"):
            case {"mean_log_probability": scores, "chrf": chrf}:
                if is_rising(scores) and is_rising(chrf) and len(scores) == len(chrf):
                    return cls(mean_log_probability=tuple(scores), chrf=tuple(chrf))
        return None

    def expected_chrf(self, mean_log_probability: float) -> float:
        """Return the mean chrF, from 0 to 100, of dev translations with this mean log-probability."""
        return float(np.interp(mean_log_probability, self.mean_log_probability, self.chrf))


def rising_groups(texts: Iterable[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Divide texts, sorted by score, into groups whose mean chrF rises from group to group (isotonic regression).

    Args:
        texts: the score (mean log-probability) and the chrF of each text.

    >>> rising_groups([(-3.0, 10.0), (-2.0, 50.0), (-1.0, 30.0), (0.0, 60.0)])
    [[(-3.0, 10.0)], [(-2.0, 50.0), (-1.0, 30.0)], [(0.0, 60.0)]]
    """
    groups: list[list[tuple[float, float]]] = []
    for text in texts:
        groups.append([text])
        while len(groups) > 1 and mean_chrf(groups[-2]) >= mean_chrf(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    return groups


def mean_chrf(group: Sequence[tuple[float, float]]) -> float:
    return sum(chrf for _, chrf in group) / len(group)


def join_small_groups(groups: Iterable[list[tuple[float, float]]]) -> list[list[tuple[float, float]]]:
    """Join a group of fewer than `FEWEST_IN_GROUP` texts with the next group; the last group, with the one before."""
    joined: list[list[tuple[float, float]]] = []
    for group in groups:
        if joined and len(joined[-1]) < FEWEST_IN_GROUP:
            joined[-1] += group
        else:
            joined.append(list(group))
    if len(joined) > 1 and len(joined[-1]) < FEWEST_IN_GROUP:
        last = joined.pop()
        joined[-1] += last
    return joined


def is_rising(values: object) -> TypeGuard[Sequence[float]]:
    """Return whether a value is a nonempty list of finite floats in rising order."""
    return (
        isinstance(values, (list, tuple))
        and bool(values)
        and all(isinstance(value, float) and math.isfinite(value) for value in values)
        and all(value < following for value, following in pairwise(values))
    )


def sentence_chrf(texts: Iterable[str], references: Iterable[str]) -> list[float]:
    """Return the chrF of each text against its reference, from 0 to 100; equal texts have 100."""
    metric = import_extra("sacrebleu", "translation").CHRF()
    return [
        100.0 if text == reference else float(metric.sentence_score(text, [reference]).score)
        for text, reference in zip(texts, references, strict=True)
    ]
