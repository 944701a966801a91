"""Print which files a subcommand of `regard` has written."""

from collections.abc import Sequence
from pathlib import Path

from regard.visible_text import escape_controls


def print_written(outputs: Sequence[Path]) -> None:
    """Print an empty line and the names of the written files; print nothing if `outputs` is empty."""
    if outputs:
        print()
    for output in outputs:
        print(f"wrote {escape_controls(output)}")
