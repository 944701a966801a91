"""The state of a training as a value: with the parameters and the optimiser it determines all further steps.

It holds no states of random generators: the random numbers of a step follow from the seed, the step and the process, so
that a training that is resumed draws the numbers that it would have drawn.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.training.settings.train_config import Kept, Metric


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """The steps taken and the next batch to read."""

    step: int = 0
    """The number of steps taken."""

    epoch: int = 0
    """The current pass over the corpus, from 0."""

    batch: int = 0
    """The next batch of the epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DevResult:
    """The loss and BLEU of some parameters on the dev pairs."""

    step: int
    loss_nats: float
    """The mean loss a token, without label smoothing."""

    bleu: float
    averaged: int
    """The number of evaluations whose parameters were averaged; 1 = the current parameters."""

    def words(self) -> str:
        """Return the numbers in one line."""
        return f"BLEU {self.bleu:.1f}, dev loss {self.loss_nats:.3f} (step {self.step:,})"

    def better_than(self, other: "DevResult | None", metric: Metric) -> bool:
        """Return whether this result is better than another; if BLEU is equal, the lower loss is better.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """The state of a training after a step."""

    position: Position = Position()
    best: DevResult | None = None
    kept: DevResult | None = None
    """The result of the parameters that are the translator."""

    lowest_loss_nats: float | None = None
    """The lowest dev loss of all evaluations; None = no evaluation yet."""

    since_best: int = 0
    """The number of evaluations since the latest that was the best or had the lowest loss."""

    snapshots: tuple[str, ...] = ()
    """The files with the parameters of the latest evaluations, oldest first."""

    elapsed_seconds: float = 0.0
    """The time of training so far, in all runs together."""

    def evaluated(self, result: DevResult, metric: Metric, keep: Kept) -> "TrainingState":
        """Return the state after an evaluation.

        A falling loss counts as progress, whatever the metric: early in training BLEU is near 0 and changes by chance.
        """
        best = result if result.better_than(self.best, metric) else self.best
        lower = self.lowest_loss_nats is None or result.loss_nats < self.lowest_loss_nats
        return replace(
            self,
            best=best,
            kept=result if keep == "last" else best,
            lowest_loss_nats=result.loss_nats if lower else self.lowest_loss_nats,
            since_best=0 if best is result or lower else self.since_best + 1,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "TrainingState":
        """Return the state from the plain values of `as_json`."""
        best, kept = (DevResult(**plain[name]) if plain.get(name) else None for name in ("best", "kept"))
        position, snapshots = Position(**plain["position"]), tuple(plain["snapshots"])
        return cls(**{**plain, "position": position, "best": best, "kept": kept, "snapshots": snapshots})
