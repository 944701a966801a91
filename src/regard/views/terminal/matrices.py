"""Worked attention in the terminal: every matrix as a labelled block, side by side where there is room.

Where a matrix does not fit, names are shortened, then digits are left out, then its middle: the first and last rows and
columns stay, and the keys that the token of interest looks at most.

    python -m regard.views.terminal.matrices        draws the example "self-attention"
"""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.by_hand.worked_attention import Stage, WorkedAttention
from regard.views.terminal.number_text import GAP, LABEL_CELLS, Way, fit, kept, printable, priority, shortened

PIPED_WIDTH = 120
"""Columns where nobody says how many there are."""

ROWS = 24
"""Rows of a matrix that are all shown."""

TOKEN_ROWS, NUMBER_ROWS = 16, 8
"""Rows that are shown of a matrix with more: of one with a token for each row, and of parameters."""

NOTABLE = 4
"""Keys that stay in sight for the sake of the token of interest."""

RULE_CELLS = 80
"""How long the line at the head of a section is at most."""

INDENT, BETWEEN = 2, 4
"""Spaces left of a block, and between two."""

MARK = "▸ "
SUM = "  sum"

RGB = tuple[int, int, int]
WHITE: RGB = (255, 255, 255)
BLUE: RGB = (8, 81, 156)
ORANGE: RGB = (241, 163, 64)
PURPLE: RGB = (153, 142, 195)
BARRED = Style(color="#6e6e6e", bgcolor="#c8c8c8")
"""A cell that the mask forbids."""


def show(worked: WorkedAttention, console: Console | None = None, digits: int | None = None) -> None:
    """Print every stage, as wide as the console.

    Args:
        console: None = standard output, 120 columns wide if that is no terminal and COLUMNS does not say otherwise.
        digits: decimals of a number that is rounded; None = 4, or fewer where tokens would not fit otherwise.
    """
    console = console or standard_output()
    plain = console.color_system is None or console.no_color
    for line in lines(worked, console.width, digits):
        if plain:
            line.rstrip()
        console.print(line, soft_wrap=True, highlight=False)


def standard_output() -> Console:
    """Standard output as rich knows it; where it is no terminal, and COLUMNS says nothing, wide enough."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console


def lines(worked: WorkedAttention, width: int, digits: int | None = None) -> Iterator[Text]:
    """All that `show` prints, line by line."""
    yield from wrapped(printable(worked.title), width, "bold")
    for note in filter(None, (worked.numbers.source, *worked.notes)):
        yield from wrapped(printable(note), width)
    left_out = False
    for section, stages in groupby(worked.stages, key=lambda stage: stage.section):
        yield Text()
        rule = "─" * max(0, min(width, RULE_CELLS) - len(section) - 4)
        yield Text.assemble(("── ", "dim"), (section, "bold"), (f" {rule}", "dim"))
        blocks = [block(worked, stage, width, digits) for stage in stages]
        left_out = left_out or any(drawn.left_out for drawn in blocks)
        for row in side_by_side(blocks, width):
            yield Text()
            yield from joined(row)
    yield from looks(worked)
    if left_out:
        yield Text()
        yield from wrapped(
            f"Fitted to {width} columns: some rows, columns or digits are left out. A wider window shows more, "
            "and regard explain … --json FILE writes every number.",
            width,
        )


def looks(worked: WorkedAttention) -> Iterator[Text]:
    """Where the token of interest looks, head by head, in a line each."""
    if worked.query is None:
        return
    token = printable(worked.numbers.queries[worked.query].text)
    yield Text()
    for head, weights in enumerate(worked.weights[:, worked.query], 1):
        strongest = weights.topk(min(3, len(weights)))
        seen = zip(strongest.values.tolist(), strongest.indices.tolist(), strict=True)
        keys = [(printable(worked.numbers.keys[key].text), weight) for weight, key in seen if weight > 0]
        where = ", ".join(f"{key} {weight:.3f}" for key, weight in keys)
        within = f", in head {head}," if worked.numbers.n_heads > 1 else ""
        yield Text.assemble((token, "bold"), f"{within} looks most at {where or 'nothing'}")


# One matrix


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A drawn matrix.

    Attributes:
        heading: name, formula and shape.
        header: the names of the columns; None if they have none.
        rows: the rows with their names.
        left_out: whether something did not fit.
    """

    heading: tuple[Text, ...]
    header: Text | None
    rows: tuple[Text, ...]
    left_out: bool

    @property
    def width(self) -> int:
        """Columns of the terminal that it takes."""
        return max(line.cell_len for line in (*self.heading, *filter(None, [self.header]), *self.rows))


def block(worked: WorkedAttention, stage: Stage, width: int, digits: int | None) -> Block:
    """Draw one matrix as wide as it needs to be, and no wider than the terminal."""
    notable = worked.strongest[:NOTABLE]
    n_rows, n_columns = stage.matrix.shape
    wanted = notable if stage.keys == "rows" else () if stage.marked is None else (stage.marked,)
    limit = ROWS if n_rows <= ROWS else TOKEN_ROWS if stage.rows else NUMBER_ROWS
    rows = kept(n_rows, wanted, lambda some: len(some) <= limit)
    labels = [label(stage, row, worked.query is not None) for row in rows]
    label_cells = max(map(cell_len, [*labels, SUM if stage.summed else ""])) + (1 if stage.rows else 0)
    room = width - INDENT - label_cells
    wanted = notable if stage.keys == "columns" else ()
    candidates = sorted(priority(n_columns, wanted)[: max(1, width)])
    numbers = stage.matrix[[row for row in rows if row is not None]][:, candidates].tolist()
    if stage.summed:
        numbers.append(stage.matrix.sum(dim=0)[candidates].tolist())
    names = [shortened(stage.columns[column], LABEL_CELLS) for column in candidates] if stage.columns else []
    way, is_best = fit(numbers, names, room, digits)
    places = way.places(candidates, n_columns, wanted, room)
    drawn = [Text.assemble(" " * INDENT, row) for row in labelled(stage, rows, labels, label_cells)]
    tint, values = Tint.of(stage), iter(zip(way.cells, numbers, strict=True))
    for line, row in zip(drawn, [*rows, *([SUM] if stage.summed else [])], strict=True):
        if row is not None:
            line.append_text(cells_of(way, places, *next(values), tint))
    header = Text(" " * (INDENT + label_cells) + way.header(places), style="dim") if names else None
    return Block(heading(stage), header, tuple(drawn), not is_best or None in places or None in rows)


def labelled(stage: Stage, rows: Sequence[int | None], labels: Sequence[str], label_cells: int) -> Iterator[Text]:
    """The beginnings of rows, and of the sum of them if there is one."""
    for row, name in zip(rows, labels, strict=True):
        bold = "bold" if row is not None and row == stage.marked else ""
        yield Text(name + " " * (label_cells - cell_len(name)), style=bold)
    if stage.summed:
        yield Text(SUM.ljust(label_cells))


def cells_of(
    way: Way, places: Sequence[int | None], cells: Sequence[str], values: Sequence[float], tint: "Tint"
) -> Text:
    """One row of numbers."""
    line = Text()
    for place in places:
        if place is None:
            line.append(f" {GAP} ", style="dim")
        else:
            line.append(way.padded(cells[place], place), style=tint.style(values[place]))
    return line


def heading(stage: Stage) -> tuple[Text, Text]:
    """Name and formula; below them the shape."""
    formula = f" = {printable(stage.formula)}" if stage.formula else ""
    return (
        Text.assemble(" " * INDENT, (stage.name, "bold"), formula),
        Text(" " * INDENT + stage.shape, style="dim"),
    )


def label(stage: Stage, row: int | None, marking: bool) -> str:
    """What a row is called; ⋮ for rows that are left out."""
    mark = "" if not marking or not stage.rows else MARK if row is not None and row == stage.marked else " " * len(MARK)
    if row is None:
        return mark + "⋮"
    return mark + shortened(stage.rows[row], LABEL_CELLS) if stage.rows else ""


def wrapped(text: str, width: int, style: str = "dim") -> Iterator[Text]:
    """A text, broken between words."""
    line = ""
    for word in text.split():
        if line and cell_len(f"{line} {word}") > width:
            yield Text(line, style=style)
            line = word
        else:
            line = f"{line} {word}".lstrip()
    yield Text(line, style=style)


# Colour


@dataclass(frozen=True, slots=True)
class Tint:
    """The background of cells: `upward` for numbers up to `largest`, `downward` for negative ones; white is 0."""

    upward: RGB
    downward: RGB
    largest: float
    deepest: float

    @classmethod
    def of(cls, stage: Stage) -> "Tint":
        """Weights from white to blue; what was computed before and after them fainter, by its own largest number."""
        if stage.name.split("_")[0] == "weights":
            return cls(BLUE, BLUE, largest=1.0, deepest=1.0)
        finite = stage.matrix[stage.matrix.isfinite()].abs()
        largest = float(finite.max()) if len(finite) and (stage.formula or stage.columns) else 0.0
        return cls(ORANGE, PURPLE, largest, deepest=0.75)

    def style(self, number: float) -> Style:
        """The style of one cell; none for matrices that were given."""
        if number == -math.inf:
            return BARRED
        if self.largest == 0:
            return Style()
        share = min(1.0, abs(number) / self.largest) * self.deepest
        end = self.upward if number > 0 else self.downward
        red, green, blue = (round(low + share * (high - low)) for low, high in zip(WHITE, end, strict=True))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 128
        return Style.parse(f"{'#ffffff' if dark else '#000000'} on #{red:02x}{green:02x}{blue:02x}")


# Blocks side by side


def side_by_side(blocks: Iterable[Block], width: int) -> Iterator[list[Block]]:
    """Blocks in rows, as many in each as fit."""
    row: list[Block] = []
    for drawn in blocks:
        if row and sum(other.width for other in row) + (BETWEEN - INDENT) * len(row) + drawn.width > width:
            yield row
            row = []
        row.append(drawn)
    if row:
        yield row


def joined(row: Sequence[Block]) -> Iterator[Text]:
    """The lines of some blocks that stand side by side, their first rows at one height."""
    named = any(drawn.header is not None for drawn in row)
    columns = [[*drawn.heading, *([drawn.header or Text()] if named else []), *drawn.rows] for drawn in row]
    for height in range(max(map(len, columns))):
        line = Text()
        for place, (drawn, column) in enumerate(zip(row, columns, strict=True)):
            part = column[height] if height < len(column) else Text()
            line.append_text(part)
            if place < len(row) - 1:
                line.append(" " * (drawn.width - part.cell_len + BETWEEN - INDENT))
        yield line


if __name__ == "__main__":
    from regard.by_hand.worked_attention import worked_example

    show(worked_example("self-attention"))
