"""A comparison of two traces of one text in the terminal.

The difference at a query is the share of its attention, from 0 to 1, that is on other keys in the second trace than in
the first. The number of a head is the largest difference of all queries.
"""

import math

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.tracing.comparison import Comparison
from regard.tracing.patterns_by_layer import head_name
from regard.views.terminal.columns import Columns
from regard.views.terminal.trace import colour
from regard.visible_text import visible_name

N_LISTED = 6
"""The number of heads in the list of the heads that differ most between the two traces."""


def show(comparison: Comparison, console: Console | None = None) -> None:
    (console or Console(highlight=False)).print(view(comparison))


def view(comparison: Comparison) -> RenderableType:
    models = [visible_name(model) for model in comparison.models]
    first = comparison.first
    lines: list[RenderableType] = [Text.assemble((models[0], "bold"), " and ", (models[1], "bold"))]
    if first is None:
        lines.append(Text(f"no difference: at most {comparison.at_most:g} of a query's attention goes to other keys"))
    else:
        head, token = first
        lines.append(
            Text.assemble("they first differ in ", (head, "bold"), " for the query ", (visible_name(token), "bold"))
        )
    if comparison.output is not None:
        lines.append(Text(f"largest difference of the outputs: {comparison.output:.3g}"))
    if first is None:
        return Group(*lines)
    return Group(
        *lines,
        "",
        Text("how much of a query's attention goes to other keys, where it is most"),
        Padding.indent(head_table(comparison), 2),
        "",
        Text("every head: percent of the attention of the query that differs most"),
        Padding.indent(grid(comparison), 2),
    )


def head_table(comparison: Comparison) -> Table:
    table = Table.grid(padding=(0, 0, 0, 2), expand=False)
    for head, token, share in comparison.largest(N_LISTED):
        if share > 0:
            table.add_row(Text(head), Text(visible_name(token)), f"{share:.3f}" if share >= 1e-3 else f"{share:.1e}")
    return table


def grid(comparison: Comparison) -> Columns:
    """Return a grid of layers × heads: how far each head differs, in percent; [ ] = the first head that differs."""
    first_head = None if comparison.first is None else comparison.first[0]
    has_several_kinds = len({kind for kind, _ in comparison.layers}) > 1
    labels = [f"{kind} L{layer} " if has_several_kinds else f"L{layer} " for kind, layer in comparison.layers]
    rows = []
    for row, shares in enumerate(comparison.heads.tolist()):  # NaN: the layer has fewer heads than others
        names = [head_name(comparison.layers, row, head) for head in range(len(shares))]
        rows.append([percent_cell(share, name == first_head) for share, name in zip(shares, names, strict=True)])
    return Columns(labels, [f"H{head}".center(5) for head in range(len(rows[0]))], rows, gap=0)


def percent_cell(share: float, has_brackets: bool) -> Text:
    """Return a fraction as a percentage, five terminal cells wide; NaN = the cell is empty."""
    if math.isnan(share):
        return Text()
    percent = f"{round(100 * share):3d}"
    style = Style(color=colour(share)) if share >= 0.005 else Style(dim=True)
    return Text.assemble("[" if has_brackets else " ", (percent, style), "]" if has_brackets else " ")
