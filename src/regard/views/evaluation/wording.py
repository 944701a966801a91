"""What views say of an evaluation: which lines are shown, and its numbers in words."""

from itertools import islice

from regard.evaluation.records import Evaluation, LengthGroup, MetricScore, SentenceScore


def worst(evaluation: Evaluation, most: int) -> list[SentenceScore]:
    """The lines furthest from their references; none that is one, and spaces, which chrF does not see, count."""
    lines = (line for line in evaluation.sentences if not line.exact)
    return list(islice(lines, most))


def difference(value: float, other: float) -> str:
    """What a score is above another, to one decimal.

    >>> difference(39.41, 39.44), difference(39.41, 38.2)
    ('+0.0', '+1.2')
    """
    return f"{value - other:+z.1f}"


def words_of(group: LengthGroup) -> str:
    """The lengths of a group: 6–10, or 81 and more.

    >>> words_of(LengthGroup(least=6, most=10, n_lines=2, bleu=None, chrf=31.4, exact=0.0))
    '6–10'
    """
    return f"{group.least}+" if group.most is None else f"{group.least}–{group.most}"


def chance(p_value: float) -> str:
    """How likely a difference is by chance; samples that were drawn tell no less than 0.001.

    >>> chance(0.000999), chance(0.25)
    ('p ≤ 0.001', 'p = 0.250')
    """
    return "p ≤ 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def shown(bleu: float | None) -> str:
    """A score to one decimal, as papers print it; a dash for none."""
    return "–" if bleu is None else f"{bleu:.1f}"


def note(score: MetricScore, evaluation: Evaluation) -> str:
    """What a reader must know of a score; empty for nothing."""
    if score.name == "TER":
        return "less is better"
    if score.name.startswith("BLEU") and all(group.bleu is None for group in evaluation.by_length):
        return "no line has the four words that it counts together; see --tokenize char"
    return ""
