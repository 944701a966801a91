"""Write RESULTS.md from the folder results/: tables from JSON, and sections written by hand in Markdown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from options import RESULTS
from table import Table

HEAD = """\
# Results

The speed, memory and quality of regard beside other programs. Each table says what it compares, which command makes it
and on which machine it was measured; `python benchmarks/results.py` puts them together. A ratio is the median over
rounds in which the programs run in turn, and the brackets have the smallest and the largest median of ten groups of
rounds. Other machines give other times; compare the ratios.
"""

PAGE = RESULTS.with_name("RESULTS.md")

ORDER = "attend", "unfused", "inspection", "memory", "models", "training", "translation", "translators"
"""The tables that come first; all others follow in alphabetical order."""


def main(
    folder: Annotated[Path, typer.Option(help="Folder of the tables.", show_default="benchmarks/results")] = RESULTS,
    out: Annotated[Path, typer.Option(help="The page to write.", show_default="benchmarks/RESULTS.md")] = PAGE,
) -> None:
    """Join the tables of all benchmarks into one page.

    \b
    Example
      python benchmarks/results.py
    """
    out.write_text("\n".join([HEAD, *sections(folder, out)]), encoding="utf-8")
    print(f"wrote   {out}")


def sections(folder: Path, out: Path) -> Iterator[str]:
    """Yield a table if its JSON exists, else the Markdown written by hand."""
    pictures = str(folder.relative_to(out.parent)) if folder.is_relative_to(out.parent) else str(folder)
    for name in sorted({path.stem for path in folder.glob("*.*")}, key=sort_key):
        table, text = folder / f"{name}.json", folder / f"{name}.md"
        if table.exists():
            yield Table.read(table).markdown(pictures) + "\n"
        elif text.exists():
            yield text.read_text(encoding="utf-8")


def sort_key(name: str) -> tuple[int, str]:
    """The table of another machine, such as attend-h200, follows attend."""
    kind = name.partition("-")[0]
    return (ORDER.index(kind) if kind in ORDER else len(ORDER), name)


if __name__ == "__main__":
    typer.run(main)
