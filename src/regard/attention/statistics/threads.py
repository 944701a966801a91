"""Work shared out over threads: each takes the next piece when it is free."""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

BORN = os.getpid()
"""The process that imported this; one that is forked from it has none of its threads."""


def shared_out(items: Iterable[Item], work: Callable[[Item], Result], threads: int) -> Generator[Result, None, None]:
    """What the work makes of each item, in no order; so many threads work at a time, the caller's among them.

    Items are taken as they are needed, so nothing is made ahead. Whoever stops early, be it by Ctrl-C, closes the
    generator, and then nothing runs any more; `contextlib.closing` does so.
    """
    rest, done = Rest(items), deque[Result]()

    @torch.no_grad()  # a thread begins with gradients
    def join_in() -> None:
        try:
            done.extend(map(work, rest))
        finally:  # after an error nobody goes on
            rest.close()

    helpers: list[Future[None]] = []
    with one_thread_each():
        if threads > 1:
            end_spinning()  # at first: ours, woken beside them, would wait for their cores
        try:
            for _ in range(threads - 1):
                helpers.append(pool(threads - 1, os.getpid()).submit(join_in))
            for item in rest:
                yield work(item)
                while done:
                    yield done.popleft()
        finally:
            rest.close()
            errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in filter(None, errors):
        raise error
    yield from done


class Rest(Iterator[Item]):
    """What is left of some items, for several threads to take from, until it is closed."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items, self.lock = iter(items), Lock()

    def __next__(self) -> Item:
        with self.lock:
            return next(self.items)

    def close(self) -> None:
        """Leave nothing for anybody."""
        with self.lock:
            self.items = iter(())


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Within this, an operation of torch uses one thread: threads are what work is shared out over."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def end_spinning() -> None:
    """Let OpenMP's threads go: torch's operations leave them running for milliseconds, on cores that ours would have.

    The next operation that needs them starts them again. Nothing happens where OpenMP is older than 5.0, or is not
    what torch uses.

    Source: OpenMP 5.0, section 3.2.44.
    """
    pause = openmps_pause()
    if pause is not None and os.getpid() == BORN:
        pause(1)


@cache
def openmps_pause() -> Callable[[int], int] | None:
    """OpenMP's function for it; None where there is none."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).omp_pause_resource_all
    except (AttributeError, OSError, TypeError):
        return None
    return function


@cache
def pool(threads: int, process: int) -> ThreadPoolExecutor:
    """The threads of this process, which wait between calls; a forked process has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="regard", initializer=torch.set_num_threads, initargs=(1,))
