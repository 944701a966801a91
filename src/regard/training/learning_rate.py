"""Learning-rate schedules: the factor by which the peak learning rate is multiplied at each step."""

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["inverse-square-root", "cosine", "constant"]

Schedule = Callable[[int], float]
"""A function from a step, counted from 1, to the factor that multiplies the peak learning rate."""


def named_schedule(name: ScheduleName, warmup_steps: int, max_steps: int) -> Schedule:
    """Return a function from a step to the factor that multiplies the peak learning rate.

    The factor rises linearly to 1 during the warm-up, the first `warmup_steps` steps. Afterwards it is

        inverse-square-root    √(warmup_steps / step)       Vaswani et al. 2017, equation 3
        cosine                 (1 + cos(π done)) / 2        Loshchilov & Hutter 2017, equation 5, without restarts
        constant               1

    where `done` rises linearly from 0 at the end of the warm-up to 1 at `max_steps`.

    Departure: Vaswani et al. set the peak to 1 / √(d_model · warmup_steps); here the peak is the setting learning_rate.

    >>> [named_schedule("inverse-square-root", 100, 1100)(step) for step in (1, 50, 100, 400)]
    [0.01, 0.5, 1.0, 0.5]
    >>> [round(named_schedule("cosine", 100, 1100)(step), 3) for step in (50, 100, 350, 600, 1100)]
    [0.5, 1.0, 0.854, 0.5, 0.0]
    """

    def factor(step: int) -> float:
        if step < warmup_steps:
            return step / warmup_steps
        match name:
            case "inverse-square-root":
                return math.sqrt(max(warmup_steps, 1) / step)
            case "cosine":
                done = min((step - warmup_steps) / max(max_steps - warmup_steps, 1), 1.0)
                return (1 + math.cos(math.pi * done)) / 2
            case "constant":
                return 1.0

    return factor
