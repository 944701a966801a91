"""The options that several benchmarks share."""

from pathlib import Path
from typing import Annotated

import typer

RESULTS = Path(__file__).parent / "results"

Length = Annotated[list[int] | None, typer.Option(help="Number of queries and of keys; may be given several times.")]
Heads = Annotated[int, typer.Option(help="Number of heads.", min=1)]
Width = Annotated[list[int] | None, typer.Option(help="Width of a head; may be given several times.")]
Seconds = Annotated[float, typer.Option(help="Seconds for each row; there are at least three rounds.")]
Threads = Annotated[int | None, typer.Option(help="Number of PyTorch's threads.", show_default="torch's own choice")]
Quick = Annotated[bool, typer.Option("--quick", help="Run small sizes within seconds, and write no files.")]
Out = Annotated[
    Path | None, typer.Option(help="Folder for the Markdown, JSON and picture.", show_default="benchmarks/results")
]
