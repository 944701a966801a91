"""Saying that work goes on, on a terminal's error stream, so that what is printed can still be piped."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show what is being done and for how long, until it is done; nothing where nobody watches."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from regard.attention.statistics.progress import report_to

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    if not console.is_terminal:
        yield
        return
    with report_to(None), Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what, total=None)
        yield
