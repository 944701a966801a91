"""Measuring: functions that take turns, what their times come to, and the memory of a process of its own.

The functions that are compared run in one process, turn by turn, in a new random order each round, so that whatever
else the machine does meets them alike. What is said of them:

    time     the median of all runs
    ratio    the median of the rounds' ratios, and in brackets the least and the largest of up to ten groups' medians

A round's two runs lie side by side, so that a machine that slows down for a minute does not move their ratio.
"""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch

Result = TypeVar("Result")
Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Took:
    """What a run gives that has measured itself, since it begins with something that does not count."""

    seconds: float


GROUPS = 10
"""Groups of rounds whose medians show the spread."""

LEAST_ROUNDS, MOST_ROUNDS = 3, 300
"""Rounds that are run even when the time is over, and however much is left."""

LEAST_SECONDS = 0.01
"""What is shorter runs several times in its turn, so that one turn is about as long as this."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A number that was measured several times: its median, and the least and largest median of a group."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Spread":
        """What some measurements, in the order in which they were made, come to.

        >>> Spread.of([1.0, 1.0, 4.0, 2.0])
        Spread(median=1.5, least=1.0, most=4.0)
        """
        medians = [statistics.median(group) for group in groups(numbers)]
        return cls(statistics.median(numbers), min(medians), max(medians))

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.least:.2f} to {self.most:.2f}]"


def groups(numbers: Sequence[float]) -> list[Sequence[float]]:
    """Consecutive measurements in at most ten groups of like size.

    >>> groups([1, 2, 3])
    [[1], [2], [3]]
    >>> [len(group) for group in groups(range(25))]
    [2, 3, 2, 3, 2, 3, 2, 3, 2, 3]
    """
    n = min(GROUPS, len(numbers))
    return [numbers[len(numbers) * group // n : len(numbers) * (group + 1) // n] for group in range(n)]


def ratio(one: Sequence[float], other: Sequence[float]) -> Spread:
    """How many times as long the one takes as the other, round by round.

    >>> ratio([1.0, 10.0, 2.0], [1.0, 5.0, 4.0])
    Spread(median=1.0, least=0.5, most=2.0)
    """
    return Spread.of([a / b for a, b in zip(one, other, strict=True)])


def take_turns(runs: Mapping[str, Run], seconds: float) -> dict[str, list[float]]:
    """The seconds that some functions take, turn by turn, each having run before; what is very short runs repeatedly.

    Args:
        seconds: after so many no new round begins, once there have been three.
    """
    elapsed: dict[str, list[float]] = {name: [] for name in runs}
    repeats = {name: max(1, round(LEAST_SECONDS / (seconds_of(run) or LEAST_SECONDS))) for name, run in runs.items()}
    start = time.perf_counter()
    with no_collections():
        for done in range(MOST_ROUNDS):
            if done >= LEAST_ROUNDS and time.perf_counter() - start > seconds:
                break
            gc.collect()
            for name in random.sample(list(runs), k=len(runs)):
                elapsed[name].append(seconds_of(runs[name], repeats[name]))
    return elapsed


def seconds_of(run: Run, repeats: int = 1) -> float:
    """How long a function takes, on the average of some runs; on a GPU until all that it began is done."""
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        result = run()
    wait()
    return result.seconds if isinstance(result, Took) else (time.perf_counter() - start) / repeats


@contextmanager
def no_collections() -> Iterator[None]:
    """Switch the garbage collector off within the context; `gc.collect` then looks at objects made there alone."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def wait() -> None:
    """Until the GPU, if there is one at work, has done all that it was given."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def alone(function: Callable[..., Result], *arguments: object) -> Result:
    """What a function of a module gives in a new process of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


@dataclass(slots=True)
class Peak:
    """Resident memory that a piece of work needed at its peak, above what there was before, in bytes."""

    above: int = 0


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measures the peak of what is done within, as Linux counts it (VmHWM, set back first)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before, peak = resident("VmRSS"), Peak()
    yield peak
    peak.above = resident("VmHWM") - before


def resident(field: str) -> int:
    """A field of this process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
