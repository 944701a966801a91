"""A table of results: a value that prints as Markdown, is kept as JSON and draws itself.

results/NAME.json    everything; RESULTS.md is made of these
results/NAME.md      the table as it is read
results/NAME.svg     its picture
"""

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

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
    """What was measured, how, on what, and what came out.

    Attributes:
        name: what its files are called.
        title: its heading.
        about: what is compared with what, and what the columns mean.
        command: what makes it.
        machine: what it was measured on.
        rows: by column; None = not measured, such as for want of memory.
        picture: what of it is drawn.
    """

    name: str
    title: str
    about: str
    command: str
    machine: Mapping[str, str]
    rows: Sequence[Row]
    picture: Picture

    def markdown(self, pictures: str = ".") -> str:
        """The table as a section of a document.

        Args:
            pictures: where the pictures lie, seen from the document.
        """
        columns = list(self.rows[0])
        lines = [columns, ["---"] * len(columns), *([shown(row[column]) for column in columns] for row in self.rows)]
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
        """The table's three files."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name
        path.with_suffix(".json").write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(self.markdown() + "\n", encoding="utf-8")
        draw(self.picture, self.title, self.rows, path.with_suffix(".svg"))

    @classmethod
    def read(cls, path: Path) -> "Table":
        """A table from its JSON."""
        given = json.loads(path.read_text(encoding="utf-8"))
        rows = [{column: as_value(value) for column, value in row.items()} for row in given["rows"]]
        return cls(**{**given, "rows": rows, "picture": Picture(**given["picture"])})


def as_value(value: Any) -> Value:
    """A cell as it was before it was JSON."""
    return Spread(**value) if isinstance(value, dict) else value


def shown(value: Value) -> str:
    """A cell as it is read: three digits, thousands apart.

    >>> shown(0.01234), shown(12.345), shown(12345.6), shown(16384), shown(None)
    ('0.0123', '12.3', '12,346', '16,384', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def command_of(script: str) -> str:
    """The command that is running, as one would type it in the repository; where it writes is left out."""
    given = sys.argv[1:]
    if "--out" in given:
        del given[(at := given.index("--out")) : at + 2]
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *given])


def watched(cases: Sequence[Item], what: str) -> Iterable[Item]:
    """The cases, one after the other, and on a terminal how far one is."""
    console = Console(stderr=True)
    return track(cases, description=what, console=console, transient=True) if console.is_terminal else cases


def finish(table: Table, out: Path | None, quick: bool) -> None:
    """Print a table, and write it unless it was only a try."""
    print(table.markdown())
    if out is not None or not quick:
        table.write(out or RESULTS)
