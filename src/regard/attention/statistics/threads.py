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
            helpers += OURS.begin(join_in, threads - 1)
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
    use_threads(1)
    try:
        yield
    finally:
        use_threads(threads)


def use_threads(threads: int) -> None:
    """Let torch's operations use so many threads where this thread calls them.

    torch.set_num_threads would say so for every thread that has yet to begin as well. Here that is so only where torch
    has another OpenMP, or hides its MKL.
    """
    torch.get_num_threads()  # a thread that asks for the first time gets as many as the process has
    openmp, mkl = of_torch("omp_set_num_threads"), of_torch("MKL_Set_Num_Threads_Local")
    if openmp is not None:
        openmp(threads)
    if mkl is not None:
        mkl(threads)
    hidden = mkl is None and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    if hidden or torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def end_spinning() -> None:
    """Let OpenMP's threads go: torch's operations leave them running for milliseconds, on cores that ours would have.

    The next operation that needs them starts them again. Nothing happens where OpenMP is older than 5.0, or is not
    what torch uses.

    Source: OpenMP 5.0, section 3.2.44.
    """
    pause = of_torch("omp_pause_resource_all")
    if pause is not None and os.getpid() == BORN:
        pause(1)


@cache
def of_torch(name: str) -> Callable[[int], int] | None:
    """A function of the libraries that torch uses, which takes a number; None where there is none of that name."""
    try:
        function: Callable[[int], int] = getattr(ctypes.CDLL(torch._C.__file__), name)
    except (AttributeError, OSError):
        return None
    return function


class Threads:
    """Threads that wait between calls: as many as were ever wanted at a time, and no more."""

    def __init__(self) -> None:
        self.most, self.lock = 0, Lock()
        self.executor: ThreadPoolExecutor | None = None

    def begin(self, work: Callable[[], None], times: int) -> list[Future[None]]:
        """Begin some work several times, each in a thread as soon as one is free."""
        with self.lock:
            if self.executor is None or times > self.most:
                if self.executor is not None:
                    self.executor.shutdown(wait=False)
                self.most = max(times, self.most)
                self.executor = ThreadPoolExecutor(
                    max(1, self.most), thread_name_prefix="regard", initializer=use_threads, initargs=(1,)
                )
            return [self.executor.submit(work) for _ in range(times)]


OURS = Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OURS.__init__)  # type: ignore[misc]  # a forked process has none of its parent's
