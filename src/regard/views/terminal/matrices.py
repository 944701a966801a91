"""Attention worked out by hand in the terminal: every matrix as a block of lines, side by side if they fit.

If a matrix is too wide for the terminal, columns in the middle are left out. If columns have names, the names are
shortened first, and then decimals are left out. Of a long matrix, rows in the middle are left out. The row of one
query, `worked.query`, is marked with ▸; the keys with the largest weights of this query are always shown.

    python -m regard.views.terminal.matrices        prints the example "self-attention"
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.by_hand.worked_attention import Stage, WorkedAttention, largest_first
from regard.tracing.tokens.token_reference import reference_of
from regard.views.terminal.number_text import (
    GAP,
    LABEL_CELLS,
    Layout,
    by_priority,
    choose_layout,
    positions_to_show,
    printable,
    shortened,
)

PIPED_WIDTH = 120
"""The width of the output, in terminal cells, if it goes to a file or to another program."""

MAX_ROWS = 24
"""All rows of a matrix are shown if there are at most this many."""

TOKEN_ROWS, NUMBER_ROWS = 16, 8
"""Of a matrix with more than MAX_ROWS rows, TOKEN_ROWS rows are shown if the rows have names, else NUMBER_ROWS rows."""

N_NOTABLE = 4
"""The number of keys that are always shown: the keys with the largest weights of the query that is explained."""

RULE_CELLS = 80
"""The largest width, in terminal cells, of the line with a title above a group of matrices."""

INDENT, BETWEEN = 2, 4
"""The number of spaces left of a matrix, and between two matrices side by side."""

QUERY_MARK = "▸ "
"""Stands before the label of the row of `worked.query`, the query whose weights are explained."""

RGB = tuple[int, int, int]
WHITE: RGB = (255, 255, 255)
BLUE: RGB = (8, 81, 156)
ORANGE: RGB = (241, 163, 64)
PURPLE: RGB = (153, 142, 195)
MASKED_STYLE = Style(color="#6e6e6e", bgcolor="#c8c8c8")
"""The style of a number that the mask hides."""


def show(
    worked: WorkedAttention,
    console: Console | None = None,
    digits: int | None = None,
    *,
    translated: Callable[[str], str] = str,
) -> None:
    """Print every matrix of a worked example of attention, no wider than the console.

    Args:
        console: None = standard output, 120 cells wide if it is not a terminal and the variable COLUMNS is not set.
        digits: the number of decimals of rounded numbers; None = 4, or fewer if the columns do not fit otherwise.
        translated: returns a title, a heading or a formula in another language; str = English.
    """
    console = console or standard_output()
    has_no_colours = console.color_system is None or console.no_color
    for line in lines(worked, console.width, digits, translated):
        if has_no_colours:
            line.rstrip()
        console.print(line, soft_wrap=True, highlight=False)


def standard_output() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console


def lines(
    worked: WorkedAttention, width: int, digits: int | None = None, translated: Callable[[str], str] = str
) -> Iterator[Text]:
    yield from title_lines(worked, width, translated)
    is_cut = False
    for section, stages in groupby(worked.stages, key=lambda stage: stage.section):
        yield Text()
        yield from section_rule(translated(section), width)
        blocks = [format_block(worked, stage, width, digits, translated) for stage in stages]
        is_cut = is_cut or any(block.is_cut for block in blocks)
        for row in side_by_side(blocks, width):
            yield Text()
            yield from joined_lines(row)
    yield from strongest_keys(worked)
    if is_cut:
        yield Text()
        note = (
            f"Fitted to {width} columns: some rows, columns or digits are left out. A wider window shows more, "
            "and regard explain … --json FILE writes every number."
        )
        yield from wrapped(translated(note), width)


def section_rule(section: str, width: int) -> Iterator[Text]:
    """Yield a line from left to right with the name of a section in it; a name that is too long takes several lines."""
    *names, last = (line.plain for line in wrapped(section, max(1, width - len("── "))))
    for name in names:
        yield Text.assemble(("── ", "dim"), (name, "bold"))
    rule = "─" * max(0, min(width, RULE_CELLS) - cell_len(last) - len("──  "))
    yield Text.assemble(("── ", "dim"), (last, "bold"), (f" {rule}".rstrip(), "dim"))


def title_lines(worked: WorkedAttention, width: int, translated: Callable[[str], str] = str) -> Iterator[Text]:
    yield from wrapped(printable(translated(worked.title)), width, "bold")
    for note in filter(None, (worked.inputs.source, *worked.notes)):
        yield from wrapped(printable(translated(note)), width)


def strongest_keys(worked: WorkedAttention) -> Iterator[Text]:
    """Yield a line for each head, with the three keys on which the query `worked.query` has its largest weights."""
    if worked.query is None:
        return
    queries, keys = worked.inputs.queries, worked.inputs.keys
    token = printable(reference_of(worked.query, queries))
    yield Text()
    for head, weights in enumerate(worked.weights[:, worked.query], 1):
        strongest = [key for key in largest_first(weights)[:3] if weights[key] > 0]
        listing = ", ".join(f"{printable(reference_of(key, keys))} {weights[key]:.3f}" for key in strongest)
        within = f", in head {head}," if worked.inputs.n_heads > 1 else ""
        yield Text.assemble((token, "bold"), f"{within} looks most at {listing or 'nothing'}")


# One matrix as lines of text


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One matrix as lines of text, to be printed beside other matrices.

    Attributes:
        heading: a line with the matrix's name and formula, and a line with its shape.
        header: the line with the names of the columns; None = the columns have no names.
        rows: a line for each row of the matrix, with the name of the row and its numbers.
        is_cut: whether rows, columns or decimals of the matrix are left out, or names are shortened.
    """

    heading: tuple[Text, ...]
    header: Text | None
    rows: tuple[Text, ...]
    is_cut: bool

    @property
    def width(self) -> int:
        return max(line.cell_len for line in (*self.heading, self.header or Text(), *self.rows))


def format_block(
    worked: WorkedAttention,
    stage: Stage,
    width: int,
    digits: int | None,
    translated: Callable[[str], str] = str,
) -> Block:
    """Return a matrix as lines of at most `width` terminal cells, with at most `digits` decimals (None = 4)."""
    notable = worked.strongest[:N_NOTABLE]
    rows: list[tuple[str, bool, np.ndarray | None]] = []  # (label, whether it is bold, numbers); None = rows left out
    for row in rows_to_show(stage, notable):
        label = row_label(stage, row, has_mark_column=worked.query is not None)
        if row is None:
            rows.append((label, False, None))
        else:
            is_bold = row == stage.marked  # the row of `worked.query`
            rows.append((label, is_bold, stage.matrix[row]))
    if stage.summed:
        rows.append((" " * len(QUERY_MARK) + translated("sum"), False, stage.matrix.sum(axis=0)))
    label_cells = max(cell_len(label) for label, _, _ in rows) + (1 if stage.rows else 0)
    room = width - INDENT - label_cells
    n_columns = stage.matrix.shape[1]
    notable_columns = notable if stage.axis_of_keys == "columns" else ()
    candidates = sorted(by_priority(n_columns, notable_columns)[: max(1, width)])  # no more than `width` columns fit
    number_rows = [values for _, _, values in rows if values is not None]
    numbers = [{column: float(values[column]) for column in candidates} for values in number_rows]
    names = {column: stage.columns[column] for column in candidates} if stage.columns else {}
    layout, is_best = choose_layout(numbers, names, room, digits)
    columns = positions_to_show(n_columns, notable_columns, lambda shown: layout.total_width(shown) <= room)
    tint, cells_of_rows = Tint.of(stage), iter(layout.cells)  # `cells` has an entry for each row that has numbers
    lines = []
    for label, is_bold, values in rows:
        padded_label = label + " " * (label_cells - cell_len(label))
        line = Text.assemble(" " * INDENT, (padded_label, "bold" if is_bold else ""))
        if values is not None:
            line.append_text(row_text(layout, columns, next(cells_of_rows), values, tint))
        lines.append(line)
    header = Text(" " * (INDENT + label_cells) + layout.header(columns), style="dim") if names else None
    has_row_gap = any(values is None for _, _, values in rows)
    is_cut = not is_best or None in columns or has_row_gap
    return Block(heading(stage, translated), header, tuple(lines), is_cut)


def rows_to_show(stage: Stage, notable: Sequence[int]) -> list[int | None]:
    """Return the numbers of the rows to show, with None for each gap.

    If not all rows are shown, the `notable` keys are kept if the rows are keys, otherwise the row of `worked.query`.
    """
    n_rows = len(stage.matrix)
    if n_rows <= MAX_ROWS:
        return list(range(n_rows))
    max_rows = TOKEN_ROWS if stage.rows else NUMBER_ROWS
    marked_row = () if stage.marked is None else (stage.marked,)
    notable_rows = notable if stage.axis_of_keys == "rows" else marked_row
    return positions_to_show(n_rows, notable_rows, lambda positions: len(positions) <= max_rows)


def row_text(
    layout: Layout, columns: Sequence[int | None], cells: Mapping[int, str], values: np.ndarray, tint: "Tint"
) -> Text:
    """Return the numbers of one row as coloured text.

    Args:
        columns: the columns to show; None = columns are left out here, and … is shown.
        cells, values: the numbers of the row by column, as text and as floats.
    """
    line = Text()
    for column in columns:
        if column is None:
            line.append(f" {GAP} ", style="dim")
        else:
            line.append(layout.padded(cells[column], column), style=tint.style(float(values[column])))
    return line


def heading(stage: Stage, translated: Callable[[str], str]) -> tuple[Text, Text]:
    formula = f" = {printable(translated(stage.formula))}" if stage.formula else ""
    return (
        Text.assemble(" " * INDENT, (stage.name, "bold"), formula),
        Text(" " * INDENT + translated(stage.shape), style="dim"),
    )


def row_label(stage: Stage, row: int | None, has_mark_column: bool) -> str:
    """Return the label of a row; None = rows are left out here, and the label is ⋮.

    If `has_mark_column`, the label of the query's row begins with QUERY_MARK, and other labels with as many spaces.
    """
    if not stage.rows:
        return "⋮" if row is None else ""
    mark = ""
    if has_mark_column:
        mark = QUERY_MARK if row is not None and row == stage.marked else " " * len(QUERY_MARK)
    return mark + ("⋮" if row is None else shortened(stage.rows[row], LABEL_CELLS))


def wrapped(text: str, width: int, style: str = "dim") -> Iterator[Text]:
    """Yield a text as lines of at most `width` terminal cells, broken between words; a wider word has its own line."""
    line = ""
    for word in text.split():
        if line and cell_len(f"{line} {word}") > width:
            yield Text(line, style=style)
            line = word
        else:
            line = f"{line} {word}".lstrip()
    yield Text(line, style=style)


# The colours of numbers


@dataclass(frozen=True, slots=True)
class Tint:
    """The background colours of the numbers of a matrix, from white for 0 to a deep colour for `largest`.

    Attributes:
        positive, negative: the colours of numbers above and below 0.
        largest: the absolute value of the numbers with the deepest colour; 0 = no number has a background colour.
        deepest: the fraction of `positive` or `negative` in the deepest colour; the rest of the colour is white.
    """

    positive: RGB
    negative: RGB
    largest: float
    deepest: float

    @classmethod
    def of(cls, stage: Stage) -> "Tint":
        """Return blue for attention weights, fainter colours for computed numbers and biases, no colour for inputs."""
        if stage.is_weights:
            return cls(BLUE, BLUE, largest=1.0, deepest=1.0)
        finite = np.abs(stage.matrix[np.isfinite(stage.matrix)])
        is_input = not stage.formula and not stage.columns  # a given bias has columns with names
        largest = float(finite.max()) if len(finite) and not is_input else 0.0
        return cls(ORANGE, PURPLE, largest, deepest=0.75)

    def style(self, number: float) -> Style:
        if number == -math.inf:
            return MASKED_STYLE
        if self.largest == 0:
            return Style()
        share = min(1.0, abs(number) / self.largest) * self.deepest
        tint = self.positive if number > 0 else self.negative
        red, green, blue = (round(white + share * (full - white)) for white, full in zip(WHITE, tint, strict=True))
        luma = 0.299 * red + 0.587 * green + 0.114 * blue  # ITU-R BT.601
        is_dark = luma < 128
        return Style.parse(f"{'#ffffff' if is_dark else '#000000'} on #{red:02x}{green:02x}{blue:02x}")


# Several matrices side by side


def side_by_side(blocks: Iterable[Block], width: int) -> Iterator[list[Block]]:
    """Yield rows of as many blocks as fit side by side into `width` terminal cells."""
    row: list[Block] = []
    for block in blocks:
        row_width = sum(previous.width + BETWEEN - INDENT for previous in row)  # a block begins with INDENT spaces
        if row and row_width + block.width > width:
            yield row
            row = []
        row.append(block)
    if row:
        yield row


def joined_lines(row: Sequence[Block]) -> Iterator[Text]:
    has_header = any(block.header is not None for block in row)
    columns = []
    for block in row:
        header = [block.header or Text()] if has_header else []
        columns.append([*block.heading, *header, *block.rows])
    for parts in zip_longest(*columns, fillvalue=Text()):
        line = Text()
        for block, part in zip(row, parts, strict=True):
            line.append_text(part)
            if block is not row[-1]:
                line.append(" " * (block.width - part.cell_len + BETWEEN - INDENT))
        yield line


if __name__ == "__main__":
    from regard.by_hand.work_out import worked_example

    show(worked_example("self-attention"))
