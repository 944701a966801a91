"""An evaluation of translations in the terminal: scores, scores by length, worst lines, settings of the metrics."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from regard.evaluation.records import Evaluation, MetricScore, SentenceScore
from regard.views.evaluation.wording import (
    length_range,
    p_value_text,
    score_note,
    score_text,
    signed_difference,
    worst_lines,
)
from regard.views.evaluation.words import Part, differences, nearest_reference
from regard.visible_text import escape_controls

BAR_CELLS = 20
"""The width of the bar for a chrF of 100, in terminal cells."""


def show(evaluation: Evaluation, n_worst: int = 5, console: Console | None = None) -> None:
    """Print an evaluation.

    Args:
        n_worst: the number of translated lines to print, the lines with the lowest chrF; a line that equals a reference
            is not printed.
        console: None = standard output.
    """
    console = console or Console(highlight=False)
    console.print(overview(evaluation, n_worst))
    console.print("\n[bold]signatures[/bold]")
    for score in evaluation.scores:
        # soft_wrap: the signature is not broken into lines, so that a reader can copy it
        console.print(Text(f"  {score.signature}", style="dim"), soft_wrap=True)


def overview(evaluation: Evaluation, n_worst: int) -> RenderableType:
    parts: list[RenderableType] = [score_table(evaluation), ""]
    caption = Text("by length, in words of the reference as BLEU counts them", style="bold")
    parts += [caption, Padding.indent(length_table(evaluation), 2)]
    if lines := worst_lines(evaluation, n_worst):
        parts += ["", Text("the worst lines by chrF", style="bold")]
        parts += [Padding.indent(line_table(line), 2) for line in lines]
    return Group(*parts)


def score_table(evaluation: Evaluation) -> Table:
    has_other = evaluation.other_exact is not None  # then each score has a `comparison`
    headers = ("", "score", "other", "difference", "") if has_other else ("", "score", "")
    table = Table.grid(padding=(0, 0, 0, 3), expand=False)
    for column in range(len(headers)):
        table.add_column(justify="right" if 0 < column < len(headers) - 1 else "left")
    table.add_row(*(Text(header, style="dim") for header in headers))
    for score in evaluation.scores:
        table.add_row(*score_row(score, score_note(score, evaluation)))
    table.add_row(*exact_row(evaluation))
    return table


def score_row(score: MetricScore, note: str) -> list[Text]:
    name, comparison = Text(score.name, style="bold"), score.comparison
    if comparison is None:
        return [name, Text(score_text(score.value)), Text(note, style="dim")]
    return [
        name,
        Text(f"{score.value:.1f} ± {comparison.interval:.1f}"),
        Text(f"{comparison.other:.1f} ± {comparison.other_interval:.1f}"),
        Text(signed_difference(score.value, comparison.other)),
        Text("; ".join(filter(None, [p_value_text(comparison.p_value), note])), style="dim"),
    ]


def exact_row(evaluation: Evaluation) -> list[Text]:
    exact, other = evaluation.exact, evaluation.other_exact
    other_cells = [] if other is None else [Text(score_text(other)), Text(signed_difference(exact, other))]
    note = Text(f"% of {evaluation.n_lines:,} lines", style="dim")
    return [Text("exact", style="bold"), Text(score_text(exact)), *other_cells, note]


def length_table(evaluation: Evaluation) -> Table:
    table = Table.grid(padding=(0, 0, 0, 3), expand=False)
    for _ in range(5):
        table.add_column(justify="right")
    table.add_column(no_wrap=True)
    table.add_row(*(Text(header, style="dim") for header in ("words", "lines", "BLEU", "chrF", "exact")))
    for group in evaluation.by_length:
        bar = "█" * round(group.chrf / 100 * BAR_CELLS)
        numbers = f"{group.n_lines:,}", score_text(group.bleu), score_text(group.chrf), score_text(group.exact)
        table.add_row(length_range(group), *numbers, Text(bar, style="rgb(66,146,198)"))
    return table


def line_table(line: SentenceScore) -> Table:
    """Return a table of one translated line: its chrF, source, nearest reference, and one or two translations.

    Words of the reference that the translation lacks are green; words of the translation that the reference lacks are
    red.
    """
    reference = nearest_reference(line.hypothesis, line.references)
    wrong, missing = differences(line.hypothesis, reference)
    table = Table.grid(padding=(0, 2, 0, 0), expand=False)
    table.add_row(Text(f"line {line.line:,}", style="bold"), Text(f"chrF {line.chrf:.1f}", style="dim"))
    if line.source is not None:
        table.add_row(Text("  source", style="dim"), Text(escape_controls(line.source)))
    table.add_row(Text("  reference", style="dim"), marked(missing, "green"))
    table.add_row(Text("  translation", style="dim"), marked(wrong, "red"))
    if line.other is not None:
        table.add_row(Text("  other", style="dim"), Text(escape_controls(line.other)))
    return table


def marked(parts: list[Part], colour: str) -> Text:
    return Text.assemble(*((escape_controls(part.text), colour if part.differs else "") for part in parts))
