"""The dataclasses of an evaluation's results, which `evaluate` returns and `regard evaluate --json` writes."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The comparison of a score with another system's score on the same lines, by paired bootstrap resampling.

    Attributes:
        other: the other system's score.
        interval, other_interval: half the width of the 95 % confidence interval of each of the two scores.
        p_value: the probability of a difference at least as large as the observed one, if the systems were equally
            good.
    """

    other: float
    interval: float
    other_interval: float
    p_value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricScore:
    """The score of one metric over all lines.

    Attributes:
        name: BLEU, chrF2, TER or COMET. For TER lower is better, for the others higher.
        value: the score in percent; TER may exceed 100.
        signature: a text that states how the score was computed, from sacreBLEU except for COMET.
    """

    name: str
    value: float
    signature: str
    comparison: Comparison | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthGroup:
    """The scores, in percent, of the lines whose reference has `least` to `most` words.

    Attributes:
        most: None = no upper bound.
        bleu: None if every translation has fewer than four words, because BLEU counts sequences of four words.
        exact: the percentage of lines whose translation equals a reference.
    """

    least: int
    most: int | None
    n_lines: int
    bleu: float | None
    chrf: float
    exact: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceScore:
    """The translation of one line, its references and its chrF in percent.

    Attributes:
        line: the line's number, counted from 1.
        exact: whether the translation equals one of the references.
        other: the other system's translation; None = there is no other system.
    """

    line: int
    chrf: float
    exact: bool
    hypothesis: str
    references: tuple[str, ...]
    source: str | None = None
    other: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        scores: BLEU, chrF, TER and, if it was asked for, COMET, in this order.
        exact, other_exact: the percentage of lines whose translation equals a reference, for each of the two systems.
        by_length: the scores of each group of lines of similar length, from short to long; empty groups are left out.
        sentences: the translation and the chrF of each line; the lowest chrF comes first.
    """

    n_lines: int
    scores: tuple[MetricScore, ...]
    exact: float
    other_exact: float | None
    by_length: tuple[LengthGroup, ...]
    sentences: tuple[SentenceScore, ...]
