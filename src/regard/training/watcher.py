"""Showing the progress of a training on standard error: a line that changes on a terminal, new lines elsewhere."""

import time
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any

from regard.training.training_state import DevResult, bleu_name

CALLS_PER_LINE = 10
"""If standard error is not a terminal, the first of every ten calls of `progress` prints a line."""

QUIET_SECONDS = 30
"""If standard error is not a terminal, the current task is printed at these intervals without other output."""


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

    def progress(self, entry: Mapping[str, Any], max_steps: int, left_seconds: float, best: DevResult | None) -> None:
        """Show a log entry about training steps, whose keys are those of `log_progress`.

        Args:
            left_seconds: the estimated seconds until training ends, at max_steps or max_minutes, whichever comes first.
            best: the best evaluation so far; None = no evaluation yet.
        """

    def evaluated(self, entry: Mapping[str, Any]) -> None:
        """Show an evaluation's log entry, whose keys are those of `DevEvaluation.entry`."""


class Terminal(Watcher):
    """Shows progress in the last line of a terminal and messages above it, or prints lines if there is no terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.live = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=self.console,
        )
        self.task = self.live.add_task("starting", total=None)
        self.n_reports = 0  # the number of calls of `progress`
        self.description, self.printed_at, self.ended = "starting", time.monotonic(), Event()
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

    def print_while_quiet(self) -> None:
        """Print the current task every `QUIET_SECONDS` without other output; this runs in a thread of its own."""
        while not self.ended.wait(QUIET_SECONDS):
            quiet_seconds = time.monotonic() - self.printed_at
            if quiet_seconds >= QUIET_SECONDS:
                self.console.print(
                    f"still running, {duration_text(quiet_seconds)} after the last line: {self.description}",
                    markup=False,
                )

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)
        self.printed_at = time.monotonic()

    def busy(self, text: str) -> None:
        self.description = text
        self.live.update(self.task, total=None, description=text)

    def stepped(self, step: int, max_steps: int) -> None:
        """Show the number of steps until the first call of `progress`; from then on, `progress` shows it."""
        if self.n_reports == 0:
            self.busy(f"training: step {step:,} of {max_steps:,}")

    def progress(self, entry: Mapping[str, Any], max_steps: int, left_seconds: float, best: DevResult | None) -> None:
        """Update the live line; without a terminal, print a line at the first of every ten calls."""
        words = [
            f"step {entry['step']:,}/{max_steps:,}",
            f"epoch {entry['epoch'] + 1}",
            f"loss {entry['loss_nats']:.3f}",
            f"rate {entry['learning_rate']:.2e}",
            f"{entry['tokens_per_second']:,} tokens/s",
        ]
        if best is not None:
            words.append(f"best {best.summary()}")
        words.append(f"at most {duration_text(left_seconds)} left")
        self.description = " · ".join(words)
        self.live.update(self.task, completed=entry["step"], total=max_steps, description=self.description)
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
