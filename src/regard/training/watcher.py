"""The progress of a training as it is shown: a live line on a terminal, plain lines elsewhere, on standard error."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

PLAIN_EVERY = 10
"""The number of reports for each plain line, if standard error is not a terminal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The state of a training at a line of its log."""

    step: int
    max_steps: int
    epoch: int
    loss_nats: float
    learning_rate: float
    tokens_per_second: float
    left_seconds: float
    """The time to the last step, or to the limit in minutes if that comes first."""

    best: str
    """The best result on the dev pairs, in words."""

    def words(self) -> str:
        """Return one line with all numbers."""
        words = (
            f"step {self.step:,}/{self.max_steps:,}",
            f"epoch {self.epoch + 1}",
            f"loss {self.loss_nats:.3f}",
            f"rate {self.learning_rate:.2e}",
            f"{self.tokens_per_second:,.0f} tokens/s",
            self.best,
            f"at most {clock(self.left_seconds)} left",
        )
        return " · ".join(word for word in words if word)


class Watcher:
    """A listener to the progress of a training. This base class shows nothing; subclasses override its methods."""

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, text: str) -> None:
        """Receive a message that stays."""

    def busy(self, text: str) -> None:
        """Receive the name of a task that takes time."""

    def progress(self, progress: Progress) -> None:
        """Receive the progress at a line of the log."""

    def evaluated(self, entry: Mapping[str, Any]) -> None:
        """Receive the log's entry of an evaluation."""


class Terminal(Watcher):
    """A live line at the foot of a terminal with messages above it, or plain lines without a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.live = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.live.add_task("starting", total=None)
        self.n_reports = 0

    def __enter__(self) -> "Watcher":
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False)

    def busy(self, text: str) -> None:
        """Show the task in the live line."""
        self.live.update(self.task, total=None, description=text)

    def progress(self, progress: Progress) -> None:
        """Update the live line; without a terminal, print every tenth report."""
        self.live.update(self.task, completed=progress.step, total=progress.max_steps, description=progress.words())
        if not self.console.is_terminal and self.n_reports % PLAIN_EVERY == 0:
            self.say(progress.words())
        self.n_reports += 1

    def evaluated(self, entry: Mapping[str, Any]) -> None:
        """Print the BLEU and loss of an evaluation, and one sentence with its translation."""
        mean = f" (mean of {entry['averaged']})" if entry["averaged"] > 1 else ""
        best = "the best so far" if entry["is_best"] else f"the best was step {entry['best_step']:,}"
        self.say(
            f"step {entry['step']:,}: BLEU {entry['dev_bleu']:.1f}, loss {entry['dev_loss_nats']:.3f} "
            f"on the dev pairs{mean}, {best}"
        )
        sample = entry["sample"]
        for name in ("source", "translation", "reference"):
            self.say(f"    {name:<12}{sample[name]}")


def clock(seconds: int | float) -> str:
    """Return a duration in hours, minutes and seconds.

    >>> clock(75), clock(7322)
    ('1:15', '2:02:02')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
