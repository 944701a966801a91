"""A table of many columns. In a narrow terminal it is printed as several tables, one below the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement, measure_renderables
from rich.table import Table
from rich.text import Text

from regard.visible_text import escape_controls, isolated


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A table that is printed in parts, one below the other, if its columns do not all fit side by side.

    Labels and headers that are wider than half the terminal are cut off.

    Attributes:
        labels: the label of each row; every part of the table has the labels.
        gap: the number of terminal cells between two columns.
    """

    labels: Sequence[str]
    headers: Sequence[str]
    rows: Sequence[Sequence[Text]]
    gap: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | str]:
        for number, table in enumerate(self.tables(options.max_width)):
            if number:
                yield ""
            yield table

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        parts = measure_renderables(console, options, list(self.tables(options.max_width)))
        longest_name = max(cell_len(escape_controls(name)) for name in (*self.labels, *self.headers))
        uncut_width = 2 * longest_name + self.gap  # a name is cut off if it is wider than half the table
        return Measurement(parts.minimum, min(options.max_width, max(parts.maximum, uncut_width)))

    def tables(self, max_width: int) -> Iterator[Table]:
        """Yield the tables to print one below the other, each with some of the columns, at most `max_width` wide."""
        longest = (max_width - self.gap) // 2
        labels = [truncated(label, longest) for label in self.labels]
        headers = [truncated(header, longest) for header in self.headers]
        widths = [max(cell.cell_len for cell in column) for column in zip(headers, *self.rows, strict=True)]
        label_width = max((label.cell_len for label in labels), default=0)
        for label in labels:
            label.pad_left(label_width - label.cell_len)
        used_width, start = label_width, 0
        for column, width in enumerate(widths):
            if column > start and used_width + self.gap + width > max_width:
                yield self._table(labels, headers, range(start, column))
                used_width, start = label_width, column
            used_width += self.gap + width
        yield self._table(labels, headers, range(start, len(headers)))

    def _table(self, labels: Sequence[Text], headers: Sequence[Text], columns: range) -> Table:
        table = Table.grid(padding=(0, self.gap, 0, 0))  # a gap right of each column except the last
        table.add_column(no_wrap=True)
        for _ in columns:
            table.add_column(justify="center", no_wrap=True)
        for label, row in zip([Text(), *labels], [headers, *self.rows], strict=True):
            table.add_row(label, *(row[column] for column in columns))
        return table


def truncated(name: str, cells: int) -> Text:
    text = Text(escape_controls(name))
    text.truncate(cells, overflow="ellipsis")
    return Text(isolated(text.plain), style="dim")
