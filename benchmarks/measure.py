"""Times of functions and their ratios, and the peak memory of a function.

The functions to compare run in rounds. In each round every function runs once, in a new random order, so that other
work of the machine slows all of them alike. Times and ratios are medians over all rounds; in brackets, the smallest and
the largest median of ten groups of rounds.
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
class Elapsed:
    """Seconds that a function measured itself and returns, because its first part must not be timed."""

    seconds: float


GROUPS = 10

LEAST_ROUNDS, MOST_ROUNDS = 3, 300
"""The smallest number of rounds, even if time is over, and the largest number, even if time is left."""

LEAST_SECONDS = 0.01
"""A function that takes less time runs several times in each round."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of repeated measurements, and the smallest and largest median of a group of them."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Spread":
        """Return the `Spread` of measurements, given in the order in which they were made.

        >>> Spread.of([1.0, 1.0, 4.0, 2.0])
        Spread(median=1.5, least=1.0, most=4.0)
        """
        medians = [statistics.median(group) for group in groups(numbers)]
        return cls(statistics.median(numbers), min(medians), max(medians))

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.least:.2f} to {self.most:.2f}]"


def groups(numbers: Sequence[float]) -> list[Sequence[float]]:
    """Divide measurements, in their order, into at most ten groups of nearly equal size.

    >>> groups([1, 2, 3])
    [[1], [2], [3]]
    >>> [len(group) for group in groups(range(25))]
    [2, 3, 2, 3, 2, 3, 2, 3, 2, 3]
    """
    n = min(GROUPS, len(numbers))
    return [numbers[len(numbers) * group // n : len(numbers) * (group + 1) // n] for group in range(n)]


def ratio(one: Sequence[float], other: Sequence[float]) -> Spread:
    """Return the ratio of two functions' times, round by round.

    >>> ratio([1.0, 10.0, 2.0], [1.0, 5.0, 4.0])
    Spread(median=1.0, least=0.5, most=2.0)
    """
    return Spread.of([a / b for a, b in zip(one, other, strict=True)])


def take_turns(runs: Mapping[str, Run], seconds: float) -> dict[str, list[float]]:
    """Run each function once, then in rounds; return, for each function, its seconds in each round.

    Args:
        seconds: no new round begins after this time, but there are at least three rounds.
    """
    elapsed: dict[str, list[float]] = {name: [] for name in runs}
    repeats = {name: max(1, round(LEAST_SECONDS / (seconds_of(run) or LEAST_SECONDS))) for name, run in runs.items()}
    start = time.perf_counter()
    with without_garbage_collection():
        for n_rounds in range(MOST_ROUNDS):
            if n_rounds >= LEAST_ROUNDS and time.perf_counter() - start > seconds:
                break
            gc.collect()
            for name in random.sample(list(runs), k=len(runs)):
                elapsed[name].append(seconds_of(runs[name], repeats[name]))
    return elapsed


def seconds_of(run: Run, repeats: int = 1) -> float:
    """Return the mean seconds of some runs, work on a GPU included; if they return `Elapsed`, those of the last run."""
    synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        result = run()
    synchronize()
    return result.seconds if isinstance(result, Elapsed) else (time.perf_counter() - start) / repeats


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off, and keep it from visiting objects made before."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def synchronize() -> None:
    """Wait until the GPU has done all its work."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def in_new_process(function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function in a new process; it must be defined at the top level of a module."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def peak_memory(run: Run) -> int:
    """Return the peak of resident memory while a function runs, in bytes, without the memory in use before."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, Linux's counter of the peak
    before = resident("VmRSS")
    run()
    return resident("VmHWM") - before


def resident(field: str) -> int:
    """Return a memory field of /proc/self/status, such as VmRSS, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
