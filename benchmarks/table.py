"""Tables of results, as Markdown, as JSON (from which RESULTS.md is made) and as a picture."""

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from measure import Spread
from options import RESULTS
from picture import Picture, draw
from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")
Value = str | int | float | Spread | None
Row = Mapping[str, Value]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The results of a benchmark, and how they were measured.

    Attributes:
        about: what is compared, and what the columns mean.
        machine: the hardware and software it was measured with.
        rows: the values by column name; None = not measured, e.g. because the memory is too small.
        picture: the columns to draw.
    """

    name: str
    title: str
    about: str
    command: str
    machine: Mapping[str, str]
    rows: Sequence[Row]
    picture: Picture

    def markdown(self, pictures: str = ".") -> str:
        """Return the table as a section of a document; `pictures` is the folder of the pictures, relative to it."""
        columns = list(self.rows[0])
        lines = [
            columns,
            ["---"] * len(columns),
            *([format_cell(row[column]) for column in columns] for row in self.rows),
        ]
        return "\n\n".join(
            [
                f"## {self.title}",
                self.about,
                f"    {self.command}",
                "\n".join(f"| {' | '.join(line)} |" for line in lines),
                f"![{self.title}]({pictures}/{self.name}.svg)",
                "; ".join(f"{name} {fact}" for name, fact in self.machine.items()) + ".",
            ]
        )

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name
        path.with_suffix(".json").write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(self.markdown() + "\n", encoding="utf-8")
        draw(self.picture, self.title, self.rows, path.with_suffix(".svg"))

    @classmethod
    def read(cls, path: Path) -> "Table":
        fields = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            {column: Spread(**value) if isinstance(value, dict) else value for column, value in row.items()}
            for row in fields["rows"]
        ]
        return cls(**{**fields, "rows": rows, "picture": Picture(**fields["picture"])})


def format_cell(value: Value) -> str:
    """Format a cell with three digits, and thousands separated by commas.

    >>> format_cell(0.01234), format_cell(12.345), format_cell(12345.6), format_cell(16384), format_cell(None)
    ('0.0123', '12.3', '12,346', '16,384', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def command_of(script: str) -> str:
    """Return the running command as a user would type it in the repository, without --out."""
    arguments = sys.argv[1:]
    if "--out" in arguments:
        index = arguments.index("--out")
        del arguments[index : index + 2]
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *arguments])


def with_progress(cases: Sequence[Item], description: str) -> Iterable[Item]:
    """Yield the cases, with a progress bar on a terminal."""
    console = Console(stderr=True)
    return track(cases, description=description, console=console, transient=True, disable=not console.is_terminal)


def publish(table: Table, out: Path | None, quick: bool) -> None:
    """Print a table, and write its files; a quick run writes files only if `out` is given."""
    print(table.markdown())
    if out is not None or not quick:
        table.write(out or RESULTS)
