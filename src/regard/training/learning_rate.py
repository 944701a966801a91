"""Learning-rate schedules: functions from a step, counted from 1, to a factor that multiplies the peak learning rate.

Every schedule rises linearly to 1 during `warmup_steps`; afterwards it falls or stays at 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

ScheduleName = Literal["inverse-square-root", "cosine", "constant"]

Schedule = Callable[[int], float]
"""The type of a learning-rate schedule: a function from a step, counted from 1, to the factor of the peak rate."""


@dataclass(frozen=True, slots=True)
class InverseSquareRoot:
    """A learning-rate schedule: after the warm-up, the rate falls as 1 / √step, whatever the number of all steps.

        factor = min(step / warmup, √(warmup / step))

    Departure: Vaswani et al. set the peak to 1 / √(d_model · warmup); here the peak is the setting learning_rate.

    >>> [InverseSquareRoot(100)(step) for step in (1, 50, 100, 400)]
    [0.01, 0.5, 1.0, 0.5]

    Source: Vaswani et al. 2017, equation 3.
    """

    warmup_steps: int

    def __call__(self, step: int) -> float:
        return min(warmup(step, self.warmup_steps), math.sqrt(max(self.warmup_steps, 1) / step))


@dataclass(frozen=True, slots=True)
class Cosine:
    """A learning-rate schedule: after the warm-up, the rate falls along half a cosine, to 0 at `max_steps`.

        factor = (1 + cos(π (step - warmup) / (max_steps - warmup))) / 2

    >>> [round(Cosine(100, 1100)(step), 3) for step in (50, 100, 350, 600, 1100)]
    [0.5, 1.0, 0.854, 0.5, 0.0]

    Source: Loshchilov & Hutter 2017, equation 5, without restarts.
    """

    warmup_steps: int
    max_steps: int

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return warmup(step, self.warmup_steps)
        done = min((step - self.warmup_steps) / max(self.max_steps - self.warmup_steps, 1), 1.0)
        return (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, slots=True)
class Constant:
    """A learning-rate schedule: after the warm-up, the rate stays at its peak."""

    warmup_steps: int

    def __call__(self, step: int) -> float:
        return warmup(step, self.warmup_steps)


def warmup(step: int, warmup_steps: int) -> float:
    """Return the factor of the peak rate: step / warmup_steps during the warm-up, 1 after it."""
    return min(step / max(warmup_steps, 1), 1.0)


def named_schedule(name: ScheduleName, warmup_steps: int, max_steps: int) -> Schedule:
    match name:
        case "inverse-square-root":
            return InverseSquareRoot(warmup_steps)
        case "cosine":
            return Cosine(warmup_steps, max_steps)
        case "constant":
            return Constant(warmup_steps)
