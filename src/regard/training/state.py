"""Where a training stands, as a value: all that the next step depends on beside parameters and optimiser.

There are no states of random generators in it, because none outlives a step: what a step draws follows from the
seed, the step and the process, so that a training that goes on draws what one never stopped would have drawn.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.training.settings.config import Kept, Metric


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """How far a training has read."""

    step: int = 0
    """Steps taken."""

    epoch: int = 0
    """The pass over the corpus it is in, from 0."""

    batch: int = 0
    """The batch of that pass that comes next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What some parameters are worth, on the dev pairs."""

    step: int
    loss_nats: float
    """A token's, without smoothing."""

    bleu: float
    averaged: int
    """Of so many evaluations' parameters they are the mean."""

    def words(self) -> str:
        """The numbers, to show."""
        return f"BLEU {self.bleu:.1f}, dev loss {self.loss_nats:.3f} (step {self.step:,})"

    def better_than(self, other: "Judged | None", metric: Metric) -> bool:
        """Is it the better of the two? Where BLEU is equal, a lower loss is.

        >>> worse = Judged(step=100, loss_nats=1.5, bleu=20.0, averaged=1)
        >>> better = Judged(step=200, loss_nats=1.6, bleu=21.0, averaged=1)
        >>> better.better_than(worse, "bleu"), better.better_than(worse, "loss"), better.better_than(None, "bleu")
        (True, False, True)
        """
        if other is None:
            return True
        if metric == "loss":
            return self.loss_nats < other.loss_nats
        return (self.bleu, -self.loss_nats) > (other.bleu, -other.loss_nats)


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """Where a training stands."""

    position: Position = Position()
    best: Judged | None = None
    kept: Judged | None = None
    """The parameters that are the translator."""

    least_loss_nats: float | None = None
    """The lowest of all losses, whether or not its parameters were the best; None = nothing has been judged."""

    since_best: int = 0
    """Evaluations since one that was the best yet, or had the lowest loss."""

    snapshots: tuple[str, ...] = ()
    """The files with the parameters of the latest evaluations, oldest first."""

    elapsed_seconds: float = 0.0
    """Of training so far, all runs together."""

    def judged(self, found: Judged, metric: Metric, keep: Kept) -> "State":
        """The state after an evaluation.

        While nearly nothing is translated yet, BLEU goes up and down by chance; that the loss falls shows that all is
        well.
        """
        best = found if found.better_than(self.best, metric) else self.best
        lower = self.least_loss_nats is None or found.loss_nats < self.least_loss_nats
        return replace(
            self,
            best=best,
            kept=found if keep == "last" else best,
            least_loss_nats=found.loss_nats if lower else self.least_loss_nats,
            since_best=0 if best is found or lower else self.since_best + 1,
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "State":
        """The state that as_json wrote down."""
        best, kept = (Judged(**plain[name]) if plain.get(name) else None for name in ("best", "kept"))
        position, snapshots = Position(**plain["position"]), tuple(plain["snapshots"])
        return cls(**{**plain, "position": position, "best": best, "kept": kept, "snapshots": snapshots})
