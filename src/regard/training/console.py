"""What a training tells whoever watches: a live line on a terminal, plain lines elsewhere, all on the error stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

PLAIN_EVERY = 10
"""Lines of the log for each plain line, where nobody watches live."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What there is to show after some steps."""

    step: int
    max_steps: int
    epoch: int
    loss_nats: float
    learning_rate: float
    tokens_per_second: float
    left_seconds: float
    """To the last step, or to the limit in minutes where that comes first."""

    best: str
    """The best on the dev pairs so far, in words."""

    def words(self) -> str:
        """The numbers in a line."""
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
    """Somebody who is told how a training goes; this one says nothing, and is what others are made from."""

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, text: str) -> None:
        """Something happened."""

    def works(self, text: str) -> None:
        """Something is being done that takes its time."""

    def stands(self, standing: Standing) -> None:
        """Some steps were taken."""

    def judged(self, entry: Mapping[str, Any]) -> None:
        """The dev pairs were translated; the entry is the log's."""


class Terminal(Watcher):
    """A live line at the foot of the terminal, with what happened above it; plain lines where it is no terminal."""

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
        self.seen = 0

    def __enter__(self) -> "Watcher":
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, markup=False)

    def works(self, text: str) -> None:
        """The live line says so."""
        self.live.update(self.task, total=None, description=text)

    def stands(self, standing: Standing) -> None:
        """The live line; elsewhere a plain one every so often."""
        self.live.update(self.task, completed=standing.step, total=standing.max_steps, description=standing.words())
        if not self.console.is_terminal and self.seen % PLAIN_EVERY == 0:
            self.say(standing.words())
        self.seen += 1

    def judged(self, entry: Mapping[str, Any]) -> None:
        """How good it is, and a sentence to see it by."""
        mean = f" (mean of {entry['averaged']})" if entry["averaged"] > 1 else ""
        verdict = "the best so far" if entry["is_best"] else f"the best was step {entry['best_step']:,}"
        self.say(
            f"step {entry['step']:,}: BLEU {entry['dev_bleu']:.1f}, loss {entry['dev_loss_nats']:.3f} "
            f"on the dev pairs{mean}, {verdict}"
        )
        sample = entry["sample"]
        for name in ("source", "translation", "reference"):
            self.say(f"    {name:<12}{sample[name]}")


def clock(seconds: int | float) -> str:
    """A time as people read it.

    >>> clock(75), clock(7322)
    ('1:15', '2:02:02')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
