"""How good translations are, as plain records: `regard.translation` measures them, views show them.

`regard evaluate --json` writes the same.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A score beside another system's on the same lines.

    Attributes:
        other: the other system's score.
        interval: half the width of this score's 95 % confidence interval.
        other_interval: the same of the other system's.
        p_value: the chance of a difference this large between equal systems.
    """

    other: float
    interval: float
    other_interval: float
    p_value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricScore:
    """One metric over all lines.

    Attributes:
        name: as in its signature: BLEU, chrF2, TER. Of TER less is better.
        value: in percent.
        signature: what was computed, in sacreBLEU's words.
        comparison: the second system's score, where there is one.
    """

    name: str
    value: float
    signature: str
    comparison: Comparison | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthGroup:
    """Lines whose reference has so many words.

    Attributes:
        least: fewest words.
        most: most words; None = no bound.
        bleu: in percent, as chrf and exact; None where no line has the four words that BLEU counts together.
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
        exact: whether it is one of its references.
        other: what the second system wrote, where there is one.
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
    """Everything that is said about some translations.

    Attributes:
        scores: BLEU, chrF and TER.
        exact: how many lines are a reference word for word, in percent.
        other_exact: the same of the second system, where there is one.
        by_length: in order of length; groups without lines are left out.
        sentences: every line, the worst first.
    """

    n_lines: int
    scores: tuple[MetricScore, ...]
    exact: float
    other_exact: float | None
    by_length: tuple[LengthGroup, ...]
    sentences: tuple[SentenceScore, ...]
