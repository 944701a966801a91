"""Schedules of the learning rate: a factor of its peak at every step, steps counted from 1.

Every schedule first rises to 1 in a straight line over `warmup_steps`; then it stays or falls.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

ScheduleName = Literal["inverse-square-root", "cosine", "constant"]

Schedule = Callable[[int], float]
"""Step → factor of the peak learning rate."""


@dataclass(frozen=True, slots=True)
class InverseSquareRoot:
    """The factor falls with the square root of the step; it does not depend on the last step.

        factor = min(step / warmup, √(warmup / step))

    Departure: Vaswani's rate is this factor times 1 / √(d_model · warmup); here the peak is a setting of its own.

    >>> [InverseSquareRoot(100)(step) for step in (1, 50, 100, 400)]
    [0.01, 0.5, 1.0, 0.5]

    Source: Vaswani et al. 2017, equation 3.
    """

    warmup_steps: int

    def __call__(self, step: int) -> float:
        """Return the factor at a step."""
        return min(warmup(step, self.warmup_steps), math.sqrt(max(self.warmup_steps, 1) / step))


@dataclass(frozen=True, slots=True)
class Cosine:
    """The factor falls along half a cosine to 0 at `max_steps`.

        factor = (1 + cos(π (step - warmup) / (max_steps - warmup))) / 2

    >>> [round(Cosine(100, 1100)(step), 3) for step in (50, 100, 350, 600, 1100)]
    [0.5, 1.0, 0.854, 0.5, 0.0]

    Source: Loshchilov & Hutter 2017, equation 5, without restarts.
    """

    warmup_steps: int
    max_steps: int

    def __call__(self, step: int) -> float:
        """Return the factor at a step."""
        if step < self.warmup_steps:
            return warmup(step, self.warmup_steps)
        done = min((step - self.warmup_steps) / max(self.max_steps - self.warmup_steps, 1), 1.0)
        return (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, slots=True)
class Constant:
    """The factor stays 1."""

    warmup_steps: int

    def __call__(self, step: int) -> float:
        """Return the factor at a step."""
        return warmup(step, self.warmup_steps)


def warmup(step: int, warmup_steps: int) -> float:
    """Return the factor in the warm-up: a straight line from 0 at step 0 to 1 at its end, and 1 afterwards."""
    return min(step / max(warmup_steps, 1), 1.0)


def named_schedule(name: ScheduleName, warmup_steps: int, max_steps: int) -> Schedule:
    """Return the schedule of a name."""
    match name:
        case "inverse-square-root":
            return InverseSquareRoot(warmup_steps)
        case "cosine":
            return Cosine(warmup_steps, max_steps)
        case "constant":
            return Constant(warmup_steps)
