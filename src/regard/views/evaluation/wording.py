"""The numbers and notes of an evaluation as text, and the worst lines, for the views in the terminal and on a page."""

from regard.evaluation.records import Evaluation, LengthGroup, MetricScore, SentenceScore


def worst_lines(evaluation: Evaluation, limit: int) -> list[SentenceScore]:
    """Return at most `limit` lines: the lowest chrF first, and without the lines that equal a reference."""
    # `sentences` begins with the lowest chrF
    return [line for line in evaluation.sentences if not line.exact][:limit]


def signed_difference(value: float, other: float) -> str:
    """Return a difference with a sign and one decimal; "+0.0" and never "-0.0".

    >>> signed_difference(39.41, 39.44), signed_difference(39.41, 38.2)
    ('+0.0', '+1.2')
    """
    return f"{value - other:+z.1f}"  # z writes -0.0 as 0.0


def length_range(group: LengthGroup) -> str:
    """Return the smallest and largest number of words in a group's references, "6–10"; "81+" if there is no maximum.

    >>> length_range(LengthGroup(least=6, most=10, n_lines=2, bleu=None, chrf=31.4, exact=0.0))
    '6–10'
    """
    return f"{group.least}+" if group.most is None else f"{group.least}–{group.most}"


def p_value_text(p_value: float) -> str:
    """Return a p-value as text; with 1,000 bootstrap samples, the smallest possible value is 1/1,001.

    >>> p_value_text(0.000999), p_value_text(0.001), p_value_text(0.25)
    ('p ≤ 0.001', 'p = 0.001', 'p = 0.250')
    """
    return "p ≤ 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def score_text(score: float | None) -> str:
    return "–" if score is None else f"{score:.1f}"


def score_note(score: MetricScore, evaluation: Evaluation) -> str:
    """Return a note: for TER, that lower is better; for BLEU, that all lines are too short; else an empty text."""
    if score.name == "TER":
        return "lower is better"
    if score.name.startswith("BLEU") and all(group.bleu is None for group in evaluation.by_length):
        return "no line has the four words that it counts together; see --tokenize char"
    return ""
