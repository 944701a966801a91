"""Show progress on the error stream of a terminal, so that standard output can still be piped."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from typing import TextIO


@contextmanager
def spinner(task: str) -> Iterator[None]:
    """Show a task and the elapsed time within the with-block, if the error stream is a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from regard.attention.progress import report_to

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # redirect_stdout=False: what is printed meanwhile, such as JSON for a pipe, goes to standard output
    spinner_and_time = Progress(
        *columns, console=console, transient=True, redirect_stdout=False, disable=not console.is_terminal
    )
    with report_to(None), spinner_and_time as progress:  # no second bar for a slow computation
        progress.add_task(task, total=None)
        yield


@contextmanager
def line_progress(stream: BufferedIOBase, task: str, output: TextIO | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar for a stream of lines, if the error stream is a terminal and input and output are not.

    Yields a function that advances the bar by a number of lines. Remarks printed on the error stream appear above it.

    `output` is the stream that is written while lines are read; None = nothing is written before the last line. On one
    terminal, the bar would mix with the lines that are typed or printed.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal or (output is not None and output.isatty()) or stream.isatty():
        yield lambda n: None
        return
    columns = (
        TextColumn(task),
        BarColumn(),
        TextColumn("{task.fields[lines]:,} lines"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        n_bytes = os.fstat(stream.fileno()).st_size if stream.seekable() else None  # a pipe has no size
        bar = progress.add_task(task, total=n_bytes, lines=0)
        n_read = 0

        def count(n: int) -> None:
            nonlocal n_read
            n_read += n
            progress.update(bar, lines=n_read, completed=stream.tell() if stream.seekable() else None)

        yield count
