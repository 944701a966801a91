"""Showing the progress of a training on standard error: a line that changes on a terminal, new lines elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from regard.training.training_state import bleu_name

CALLS_PER_LINE = 10
"""If standard error is not a terminal, the first of every ten calls of `progress` prints a line."""

QUIET_SECONDS = 30
"""If standard error is not a terminal, the current task is printed after this many seconds without output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The progress of a training at one entry of its log.

    Attributes:
        epoch: the current pass over the corpus, counted from 0.
        loss_nats: the mean training loss per target token since the last log entry.
        tokens_per_second: source and target tokens per second since the last log entry.
        left_seconds: the estimated seconds until training ends, at max_steps or max_minutes, whichever comes first.
        best: the best evaluation so far as text; empty = no evaluation yet.
    """

    step: int
    max_steps: int
    epoch: int
    loss_nats: float
    learning_rate: float
    tokens_per_second: float
    left_seconds: float
    best: str

    def summary(self) -> str:
        words = (
            f"step {self.step:,}/{self.max_steps:,}",
            f"epoch {self.epoch + 1}",
            f"loss {self.loss_nats:.3f}",
            f"rate {self.learning_rate:.2e}",
            f"{self.tokens_per_second:,.0f} tokens/s",
            self.best,
            f"at most {duration_text(self.left_seconds)} left",
        )
        return " · ".join(word for word in words if word)


class Watcher:
    """The interface through which a training reports its progress; this base class ignores all reports."""

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def say(self, text: str) -> None:
        """Show a message that stays visible."""

    def busy(self, text: str) -> None:
        """Show what the training is doing now, until the next task begins."""

    def stepped(self, step: int, max_steps: int) -> None:
        """Show the number of optimiser steps so far; called after every step, and before the first one."""

    def progress(self, progress: Progress) -> None:
        """Show the progress of training; called whenever a log entry about training steps is written."""

    def evaluated(self, entry: Mapping[str, Any]) -> None:
        """Show an evaluation's log entry, whose keys are those of `DevEvaluation.entry`."""


class Terminal(Watcher):
    """Shows progress in the last line of a terminal and messages above it, or prints lines if there is no terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as ProgressBar

        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.live = ProgressBar(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=self.console,
        )
        self.task = self.live.add_task("starting", total=None)
        self.n_reports = 0  # the number of calls of `progress`
        self.description, self.printed, self.ended = "starting", Event(), Event()
        self.quiet_printer = Thread(target=self.print_while_quiet, daemon=True)

    def __enter__(self) -> "Watcher":
        if self.console.is_terminal:
            self.live.start()
        else:
            self.quiet_printer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self.console.is_terminal:
            self.live.stop()
        self.ended.set()
        self.printed.set()

    def print_while_quiet(self) -> None:
        """Print the current task whenever nothing was printed for `QUIET_SECONDS`; this runs in a thread of its own."""
        quiet_seconds = 0
        while not self.ended.is_set():
            if self.printed.wait(QUIET_SECONDS):
                self.printed.clear()
                quiet_seconds = 0
            else:
                quiet_seconds += QUIET_SECONDS
                self.console.print(
                    f"still running, {duration_text(quiet_seconds)} after the last line: {self.description}",
                    markup=False,
                )

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)
        self.printed.set()

    def busy(self, text: str) -> None:
        self.description = text
        self.live.update(self.task, total=None, description=text)

    def stepped(self, step: int, max_steps: int) -> None:
        """Show the number of steps until the first call of `progress`; from then on, `progress` shows it."""
        if self.n_reports == 0:
            self.busy(f"training: step {step:,} of {max_steps:,}")

    def progress(self, progress: Progress) -> None:
        """Update the live line; without a terminal, print a line at the first of every ten calls."""
        self.description = progress.summary()
        self.live.update(self.task, completed=progress.step, total=progress.max_steps, description=self.description)
        if not self.console.is_terminal and self.n_reports % CALLS_PER_LINE == 0:
            self.say(self.description)
        self.n_reports += 1

    def evaluated(self, entry: Mapping[str, Any]) -> None:
        mean = f" (parameters: the mean of {entry['averaged']} checkpoints)" if entry["averaged"] > 1 else ""
        best = "the best so far" if entry["is_best"] else f"best so far: step {entry['best_step']:,}"
        self.say(
            f"step {entry['step']:,}: {bleu_name(entry['bleu_tokenizer'])} {entry['dev_bleu']:.1f}, "
            f"loss {entry['dev_loss_nats']:.3f} on the dev pairs{mean}, {best}"
        )
        sample = entry["sample"]
        for name in ("source", "translation", "reference"):
            self.say(f"    {name:<12}{sample[name]}")


def duration_text(seconds: int | float) -> str:
    """Return a duration as minutes:seconds or hours:minutes:seconds.

    >>> duration_text(75), duration_text(7322)
    ('1:15', '2:02:02')
    """
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole_seconds:02}" if hours else f"{minutes}:{whole_seconds:02}"
