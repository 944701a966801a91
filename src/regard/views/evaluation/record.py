"""What views read of an evaluation: plain data, as in the file that `regard evaluate --json` writes.

`regard.translation.evaluate` has the same records with what each number means.
"""

from collections.abc import Sequence
from itertools import islice
from typing import TypedDict


class Comparison(TypedDict):
    """A score beside another system's."""

    other: float
    interval: float
    other_interval: float
    p_value: float


class Score(TypedDict):
    """One metric over all lines, in percent."""

    name: str
    value: float
    signature: str
    comparison: Comparison | None


class LengthGroup(TypedDict):
    """Lines of about one length."""

    least: int
    most: int | None
    n_lines: int
    bleu: float | None
    chrf: float
    exact: float


class Sentence(TypedDict):
    """One line with its chrF."""

    line: int
    chrf: float
    exact: bool
    hypothesis: str
    references: Sequence[str]
    source: str | None
    other: str | None


class Evaluation(TypedDict):
    """Everything that is said about some translations."""

    n_lines: int
    scores: Sequence[Score]
    exact: float
    other_exact: float | None
    by_length: Sequence[LengthGroup]
    sentences: Sequence[Sentence]


def worst(evaluation: Evaluation, most: int) -> list[Sentence]:
    """The lines furthest from their references; none that is one, and spaces, which chrF does not see, count."""
    lines = (line for line in evaluation["sentences"] if not line["exact"])
    return list(islice(lines, most))


def difference(value: float, other: float) -> str:
    """What a score is above another, to one decimal.

    >>> difference(39.41, 39.44), difference(39.41, 38.2)
    ('+0.0', '+1.2')
    """
    return f"{value - other:+z.1f}"


def words_of(group: LengthGroup) -> str:
    """The lengths of a group: 6–10, or 81 and more.

    >>> words_of({"least": 6, "most": 10, "n_lines": 2, "bleu": None, "chrf": 31.4, "exact": 0.0})
    '6–10'
    """
    return f"{group['least']}+" if group["most"] is None else f"{group['least']}–{group['most']}"


def chance(p_value: float) -> str:
    """How likely a difference is by chance; samples that were drawn tell no less than 0.001.

    >>> chance(0.000999), chance(0.25)
    ('p ≤ 0.001', 'p = 0.250')
    """
    return "p ≤ 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def shown(bleu: float | None) -> str:
    """A score to one decimal, as papers print it; a dash for none."""
    return "–" if bleu is None else f"{bleu:.1f}"


def note(score: Score, evaluation: Evaluation) -> str:
    """What a reader must know of a score; empty for nothing."""
    if score["name"] == "TER":
        return "less is better"
    if score["name"].startswith("BLEU") and all(group["bleu"] is None for group in evaluation["by_length"]):
        return "no line has the four words that it counts together; see --tokenize char"
    return ""
