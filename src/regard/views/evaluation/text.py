"""An evaluation in the terminal: the scores, the table by length, the worst lines, the signatures."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding as Indent
from rich.table import Table
from rich.text import Text

from regard.evaluation.records import Evaluation, MetricScore, SentenceScore
from regard.views.evaluation.wording import chance, difference, note, shown, words_of, worst
from regard.views.evaluation.words import Part, differences, nearest_reference
from regard.views.labels import visible

BAR_CELLS = 20


def show(evaluation: Evaluation, n_worst: int = 5, console: Console | None = None) -> None:
    """Print an evaluation, with so many of its worst lines."""
    console = console or Console(highlight=False)
    console.print(overview(evaluation, n_worst))
    console.print("\n[bold]signatures[/bold]")
    for score in evaluation.scores:
        console.print(Text(f"  {score.signature}", style="dim"), soft_wrap=True)  # in one line, to be copied


def overview(evaluation: Evaluation, n_worst: int) -> RenderableType:
    """What `show` prints before the signatures."""
    parts: list[RenderableType] = [score_table(evaluation), ""]
    parts += [Text("by length, in words of the reference", style="bold"), indented(length_table(evaluation))]
    if lines := worst(evaluation, n_worst):
        parts += ["", Text("the worst lines by chrF", style="bold"), *(indented(sentence(line)) for line in lines)]
    return Group(*parts)


def indented(what: RenderableType) -> RenderableType:
    """Two cells to the right."""
    return Indent(what, (0, 0, 0, 2), expand=False)


def score_table(evaluation: Evaluation) -> Table:
    """Every metric, beside the second system's where there is one."""
    beside = evaluation.other_exact is not None
    heads = ("", "score", "other", "difference", "") if beside else ("", "score", "")
    table = Table.grid(padding=(0, 0, 0, 3), expand=False)
    for place in range(len(heads)):
        table.add_column(justify="right" if 0 < place < len(heads) - 1 else "left")
    table.add_row(*(Text(head, style="dim") for head in heads))
    for score in evaluation.scores:
        table.add_row(*score_row(score, note(score, evaluation)))
    table.add_row(*exact_row(evaluation))
    return table


def score_row(score: MetricScore, remark: str) -> list[Text]:
    """One metric's line of the table."""
    name, comparison = Text(score.name, style="bold"), score.comparison
    if comparison is None:
        return [name, Text(shown(score.value)), Text(remark, style="dim")]
    return [
        name,
        Text(f"{score.value:.1f} ± {comparison.interval:.1f}"),
        Text(f"{comparison.other:.1f} ± {comparison.other_interval:.1f}"),
        Text(difference(score.value, comparison.other)),
        Text("; ".join(filter(None, [chance(comparison.p_value), remark])), style="dim"),
    ]


def exact_row(evaluation: Evaluation) -> list[Text]:
    """How many lines are a reference to the letter."""
    exact, other = evaluation.exact, evaluation.other_exact
    beside = [] if other is None else [Text(shown(other)), Text(difference(exact, other))]
    note = Text(f"% of {evaluation.n_lines:,} lines", style="dim")
    return [Text("exact", style="bold"), Text(shown(exact)), *beside, note]


def length_table(evaluation: Evaluation) -> Table:
    """The scores by length, with chrF as a bar."""
    table = Table.grid(padding=(0, 0, 0, 3), expand=False)
    for _ in range(5):
        table.add_column(justify="right")
    table.add_column(no_wrap=True)
    table.add_row(*(Text(head, style="dim") for head in ("words", "lines", "BLEU", "chrF", "exact")))
    for group in evaluation.by_length:
        bar = "█" * round(group.chrf / 100 * BAR_CELLS)
        numbers = f"{group.n_lines:,}", shown(group.bleu), shown(group.chrf), shown(group.exact)
        table.add_row(words_of(group), *numbers, Text(bar, style="rgb(66,146,198)"))
    return table


def sentence(line: SentenceScore) -> Table:
    """One line: what was to be said and what was, with what differs marked."""
    reference = nearest_reference(line.hypothesis, line.references)
    wrong, missing = differences(line.hypothesis, reference)
    table = Table.grid(padding=(0, 2, 0, 0), expand=False)
    table.add_row(Text(f"line {line.line:,}", style="bold"), Text(f"chrF {line.chrf:.1f}", style="dim"))
    if line.source is not None:
        table.add_row(Text("  source", style="dim"), Text(visible(line.source)))
    table.add_row(Text("  reference", style="dim"), marked(missing, "green"))
    table.add_row(Text("  translation", style="dim"), marked(wrong, "red"))
    if line.other is not None:
        table.add_row(Text("  other", style="dim"), Text(visible(line.other)))
    return table


def marked(parts: list[Part], colour: str) -> Text:
    """A text with the parts that differ in colour."""
    return Text.assemble(*((visible(part.text), colour if part.differs else "") for part in parts))
