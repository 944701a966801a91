"""The state of a training as an immutable value, which checkpoints store.

States of random generators are not needed: at every step the generator is seeded from the seed of the training, the
step and the process, so a resumed training draws the same numbers as one that was never stopped.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from regard.training.settings.train_config import Kept, Metric
from regard.typed_fields import check_fields

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """How far a training has come: the steps taken, the current epoch, and its next batch, each counted from 0."""

    step: int = 0
    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class DevResult:
    """The result of an evaluation on the dev set.

    Attributes:
        loss_nats: the mean cross-entropy per target token in nats, without label smoothing.
        bleu: corpus BLEU of greedy translations, from 0 to 100.
        averaged: the number of snapshots whose mean was evaluated; 1 = the parameters of this step alone.
        tokenizer: the name of sacreBLEU's tokenizer: "13a" (words), or "char" if BLEU counts characters.
    """

    step: int
    loss_nats: float
    bleu: float
    averaged: int
    tokenizer: str = "13a"

    def summary(self) -> str:
        return f"{bleu_name(self.tokenizer)} {self.bleu:.1f}, dev loss {self.loss_nats:.3f} (step {self.step:,})"

    def better_than(self, other: "DevResult | None", metric: Metric) -> bool:
        """Return whether this result is better than `other`; any result is better than None.

        With the metric "bleu", results of equal BLEU are compared by loss.

        >>> worse = DevResult(step=100, loss_nats=1.5, bleu=20.0, averaged=1)
        >>> better = DevResult(step=200, loss_nats=1.6, bleu=21.0, averaged=1)
        >>> better.better_than(worse, "bleu"), better.better_than(worse, "loss"), better.better_than(None, "bleu")
        (True, False, True)
        """
        if other is None:
            return True
        if metric == "loss":
            return self.loss_nats < other.loss_nats
        return (self.bleu, -self.loss_nats) > (other.bleu, -other.loss_nats)


def bleu_name(tokenizer: str) -> str:
    return "BLEU" if tokenizer == "13a" else f"BLEU ({tokenizer})"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """The state of a training after a step; before the first evaluation, some fields are None.

    Attributes:
        best: the best evaluation so far.
        kept: the evaluation whose parameters are written as the translator: the best one or the last one.
        lowest_loss_nats: the lowest dev loss of all evaluations.
        since_best: the number of evaluations after the last one that improved `best` or `lowest_loss_nats`.
        snapshots: for each of the latest evaluations, the name of the file with its parameters, oldest first.
        elapsed_seconds: the time spent in the training loop so far, in all runs together.
    """

    position: Position = Position()
    best: DevResult | None = None
    kept: DevResult | None = None
    lowest_loss_nats: float | None = None
    since_best: int = 0
    snapshots: tuple[str, ...] = ()
    elapsed_seconds: float = 0.0

    def after_evaluation(self, result: DevResult, metric: Metric, keep: Kept) -> "TrainingState":
        """Return the state after an evaluation; `metric` and `keep` are settings of the section [evaluation].

        A lower loss counts as an improvement even if the metric is BLEU, because BLEU is near 0 and noisy early in
        training.
        """
        best = result if result.better_than(self.best, metric) else self.best
        is_lowest = self.lowest_loss_nats is None or result.loss_nats < self.lowest_loss_nats
        return replace(
            self,
            best=best,
            kept=result if keep == "last" else best,
            lowest_loss_nats=result.loss_nats if is_lowest else self.lowest_loss_nats,
            since_best=0 if best is result or is_lowest else self.since_best + 1,
        )

    @classmethod
    def from_json(cls, stored: Any) -> "TrainingState":
        """Return the state from its JSON value; raise TypeError, ValueError or KeyError if `stored` is no state."""
        position = checked(Position, stored["position"])
        if min(position.step, position.epoch, position.batch, stored["since_best"]) < 0:
            raise ValueError("a number is below 0")
        best, kept = (None if stored[name] is None else checked(DevResult, stored[name]) for name in ("best", "kept"))
        snapshots = tuple(stored["snapshots"])
        if any(Path(name).name != name for name in snapshots):
            raise ValueError("a snapshot is not in the folder of snapshots")
        return checked(cls, {**stored, "position": position, "best": best, "kept": kept, "snapshots": snapshots})


def checked(kind: type[Record], values: Any) -> Record:
    """Return an instance of a dataclass from a dict of its fields; raise TypeError if a value has a wrong type."""
    if not isinstance(values, dict):
        raise TypeError(f"{kind.__name__} must be an object")
    check_fields(kind, values)
    return kind(**values)
