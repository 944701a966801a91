"""Progress of a long computation: reported to a callback, or shown as a progress bar with the time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

ProgressCallback = Callable[[int, int], None]
"""A function called as callback(done, total) with the amount of work done and the total amount of work."""

PATIENCE_SECONDS = 2.0
"""A progress bar appears on a terminal or in a notebook when a computation has taken this many seconds."""

CALLBACK: ContextVar[ProgressCallback | None] = ContextVar("CALLBACK", default=None)
"""The callback set by `report_to`; None = none was set, so a progress bar is shown."""


def ignore_progress(done: int, total: int) -> None:
    """A progress callback that does nothing, for computations whose progress is not shown."""


@contextmanager
def report_to(report: ProgressCallback | None) -> Iterator[None]:
    """Make computations of statistics inside the `with` block call `report(done, total)` instead of showing a bar.

    Args:
        report: called with the amount of work done and the total amount; None = show neither a bar nor anything else.

    >>> import torch
    >>> from regard import attend
    >>> pattern = attend(*torch.randn(3, 1, 2, 200, 4)).pattern
    >>> with report_to(lambda done, total: print(f"{done / total:.0%}")):
    ...     entropy = pattern.entropy()
    100%
    """
    if report is not None and not callable(report):
        raise TypeError(f"report={report!r} is not a function report(done, total) of two numbers, nor None.")
    before = CALLBACK.set(ignore_progress if report is None else report)
    try:
        yield
    finally:
        CALLBACK.reset(before)


@contextmanager
def progress_callback(report: ProgressCallback | None = None) -> Iterator[ProgressCallback]:
    """Yield the callback to report progress to: `report`, else the callback set by `report_to`, else a progress bar."""
    callback = report or CALLBACK.get()
    if callback is not None:
        yield callback
        return
    with ProgressBar() as bar:
        yield bar


class ProgressBar:
    """A progress callback that shows a bar on stderr once the work has taken `PATIENCE_SECONDS`."""

    def __init__(self) -> None:
        self.started, self.bar_was_tried = time.monotonic(), False
        self.bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *raised: object) -> None:
        if self.bar is not None:
            self.bar[0].stop()

    def __call__(self, done: int, total: int) -> None:
        if not self.bar_was_tried and time.monotonic() - self.started > PATIENCE_SECONDS:
            self.bar, self.bar_was_tried = start_bar(done, total), True
        if self.bar is not None:
            progress, task = self.bar
            progress.update(task, completed=done, total=total)


def start_bar(done: int, total: int) -> "tuple[Progress, TaskID] | None":
    """Start a progress bar on stderr, and return it with the task id needed to update it.

    If stderr is neither a terminal nor a notebook that has ipywidgets, return None.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    visible = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    if not visible:
        return None
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    progress = Progress(*columns, console=console, transient=True)
    progress.start()
    return progress, progress.add_task("reading attention", completed=done, total=total)
