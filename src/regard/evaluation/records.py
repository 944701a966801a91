"""The results of an evaluation as plain records, which `evaluate` computes, views show and `--json` writes."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Comparison of a score with another system's score on the same lines.

    Attributes:
        other: the other system's score.
        interval: half the width of the 95 % confidence interval of the system's own score.
        other_interval: half the width of the 95 % confidence interval of the other score.
        p_value: the probability of a difference at least this large if the systems were equal.
    """

    other: float
    interval: float
    other_interval: float
    p_value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricScore:
    """One metric over all lines.

    Attributes:
        name: as in its signature: BLEU, chrF2, TER. A lower TER is better.
        value: in percent.
        signature: sacreBLEU's description of the computation.
        comparison: with the second system, if there is one.
    """

    name: str
    value: float
    signature: str
    comparison: Comparison | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthGroup:
    """The scores of the lines whose reference has `least` to `most` words.

    Attributes:
        least: fewest words.
        most: most words; None = no bound.
        n_lines: the number of lines.
        bleu: in percent, as chrf and exact; None if every line has less than the four words of BLEU's n-grams.
    """

    least: int
    most: int | None
    n_lines: int
    bleu: float | None
    chrf: float
    exact: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceScore:
    """One line with its chrF.

    Attributes:
        line: its number, counted from 1.
        exact: whether the translation is one of the references.
        other: the second system's translation, if there is one.
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
        scores: BLEU, chrF and TER.
        exact: the percentage of lines that equal a reference.
        other_exact: the percentage of the second system, if there is one.
        by_length: shortest first; groups without lines are left out.
        sentences: every line, the worst first.
    """

    n_lines: int
    scores: tuple[MetricScore, ...]
    exact: float
    other_exact: float | None
    by_length: tuple[LengthGroup, ...]
    sentences: tuple[SentenceScore, ...]
