"""The dataclasses of an evaluation's results, which `evaluate` returns and `regard evaluate --json` writes."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The comparison of a score with another system's score on the same lines, by paired bootstrap resampling.

    Attributes:
        other: the other system's score.
        interval: half the width of the 95 % confidence interval of the score that is compared (`MetricScore.value`).
        other_interval: half the width of the 95 % confidence interval of the other system's score.
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
        comparison: the comparison with another system; None = there is none.
    """

    name: str
    value: float
    signature: str
    comparison: Comparison | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthGroup:
    """The scores of the lines whose reference has `least` to `most` words.

    Attributes:
        least: the fewest words.
        most: the most words; None = no upper bound.
        bleu: BLEU in percent; None if every translation has fewer than four words, because BLEU counts sequences of
            four words.
        chrf: chrF in percent.
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
    """The translation of one line, its references and its chrF.

    Attributes:
        line: the line's number, counted from 1.
        chrf: chrF in percent.
        exact: whether the translation equals one of the references.
        source: the source sentence; None = it was not given.
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
        exact: the percentage of lines whose translation equals a reference.
        other_exact: the percentage of exact matches of the other system; None = there is no other system.
        by_length: the scores of groups of lines, from short to long; groups without lines are left out.
        sentences: every line, sorted by chrF, the lowest first.
    """

    n_lines: int
    scores: tuple[MetricScore, ...]
    exact: float
    other_exact: float | None
    by_length: tuple[LengthGroup, ...]
    sentences: tuple[SentenceScore, ...]
