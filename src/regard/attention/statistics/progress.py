"""How far a long reading is: told to whoever wants to know, else drawn on the terminal with the time that is left.

Nobody has to ask for it: what takes longer than two seconds shows a bar on the error stream, if that is a terminal or a
notebook, and takes it away when it is done.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Report = Callable[[int, int], None]
"""Is told how much is done, and of how much."""

PATIENCE_SECONDS = 2.0
"""What is done sooner needs no bar."""


def to_nobody(done: int, of: int) -> None:
    """Take notice, and say nothing."""


REPORT: ContextVar[Report | None] = ContextVar("REPORT", default=None)
"""Who is told instead of the terminal."""


@contextmanager
def report_to(report: Report | None) -> Iterator[None]:
    """Within this, patterns that are gone through tell `report` how far they are and draw no bar; None: nobody is told.

    >>> import torch
    >>> from regard import attend
    >>> pattern = attend(*torch.randn(3, 1, 2, 200, 4)).pattern
    >>> with report_to(lambda done, of: print(f"{done / of:.0%}")):
    ...     entropy = pattern.entropy()
    100%
    """
    before = REPORT.set(to_nobody if report is None else report)
    try:
        yield
    finally:
        REPORT.reset(before)


@contextmanager
def reporting(report: Report | None = None) -> Iterator[Report]:
    """Whom a reading tells how far it is, for as long as it takes: who is given, who was named before, or a bar."""
    told = report or REPORT.get()
    if told is not None:
        yield told
        return
    with Bar() as bar:
        yield bar


class Bar:
    """A bar on the error stream, once the work has taken a while."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.drawn: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *raised: object) -> None:
        if self.drawn is not None:
            self.drawn[0].stop()

    def __call__(self, done: int, of: int) -> None:
        """Draw it, or draw it longer."""
        if self.drawn is None and time.monotonic() - self.started > PATIENCE_SECONDS:
            self.drawn = drawn(done, of)
        if self.drawn is not None:
            progress, task = self.drawn
            progress.update(task, completed=done, total=of)


def drawn(done: int, of: int) -> "tuple[Progress, TaskID]":
    """The bar itself; nothing is seen of it where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    watched = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    progress = Progress(*columns, console=console, transient=True, disable=not watched)
    progress.start()
    return progress, progress.add_task("reading attention", completed=done, total=of)
