"""Print the indirect effects of heads: the heads with the largest effects, and a grid of all heads.

The model reads a clean and a corrupted text. For each head, it reads the corrupted text again, with the head's output
from the clean text. An effect of 0 = the model's result is as for the corrupted text, 1 = as for the clean text.
"""

import math

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.tracing.indirect_effects import IndirectEffects
from regard.views.terminal.columns import Columns
from regard.views.terminal.trace import colour
from regard.visible_text import visible_name

N_LISTED = 6
"""The number of heads in the list of the heads with the largest effects."""

BELOW_ZERO = "rgb(217,72,1)"
"""The colour of an effect below 0: the head's output from the clean text moves the metric away from its clean value."""


def show(effects: IndirectEffects, console: Console | None = None) -> None:
    (console or Console(highlight=False)).print(view(effects))


def view(effects: IndirectEffects) -> RenderableType:
    table = Table.grid(padding=(0, 0, 0, 2), expand=False)
    for head, effect in effects.largest(N_LISTED):
        table.add_row(Text(head), Text(f"{effect:.3f}", justify="right"))
    clean, corrupted = map(visible_name, effects.texts)
    return Group(
        Text.assemble("clean:     ", (clean, "bold"), f"   metric {effects.clean:.3g}"),
        Text.assemble("corrupted: ", (corrupted, "bold"), f"   metric {effects.corrupted:.3g}"),
        "",
        Text("how much of the metric's difference a head's output from the clean run restores"),
        Padding.indent(table, 2),
        "",
        Text("every head, in percent"),
        Padding.indent(grid(effects), 2),
    )


def grid(effects: IndirectEffects) -> Columns:
    has_several_kinds = len({kind for kind, _ in effects.layers}) > 1
    labels = [f"{kind} L{layer} " if has_several_kinds else f"L{layer} " for kind, layer in effects.layers]
    largest = float(effects.heads.abs().nan_to_num(0.0).max()) or 1.0  # 1 if all are 0: a scale needs a length
    rows = [[percent_cell(effect, largest) for effect in of_layer] for of_layer in effects.heads.tolist()]
    return Columns(labels, [f"H{head}".rjust(5) for head in range(effects.heads.shape[1])], rows, gap=0)


def percent_cell(effect: float, largest: float) -> Text:
    """Return a head's indirect effect in percent, five terminal cells wide; `largest` has the deepest colour."""
    if math.isnan(effect):
        return Text()
    percent = max(-999, min(999, round(100 * effect)))
    if percent == 0:
        return Text(f"{percent:5d}", style="dim")
    return Text(f"{percent:5d}", style=Style(color=colour(effect / largest) if percent > 0 else BELOW_ZERO))
