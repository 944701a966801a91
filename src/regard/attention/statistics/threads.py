"""Work shared out over threads, its results in the order of the work."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(items: Iterable[Item], work: Callable[[Item], Result]) -> Generator[tuple[Item, Result], None, None]:
    """Each item with what the work made of it, in the items' order; as many at a time as torch has threads.

    Items are taken as they are needed, so that what is made ahead stays little. Whoever stops early, be it by Ctrl-C,
    closes the generator, and then nothing runs any more; `contextlib.closing` does so.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        for item in items:
            yield item, work(item)
        return
    ahead: deque[tuple[Item, Future[Result]]] = deque()
    with one_thread_each(threads):
        try:
            for item in items:
                ahead.append((item, pool(threads, os.getpid()).submit(work, item)))
                if len(ahead) > 2 * threads:
                    first, result = ahead.popleft()
                    yield first, result.result()
            while ahead:
                first, result = ahead.popleft()
                yield first, result.result()
        finally:
            for _, result in ahead:
                result.cancel()
            for _, result in ahead:
                if not result.cancelled():
                    result.exception()


@contextmanager
def one_thread_each(threads: int) -> Iterator[None]:
    """Within this, an operation of torch uses one thread; the threads of the pool are what is shared out."""
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def pool(threads: int, process: int) -> ThreadPoolExecutor:
    """The threads of this process, which wait between calls; a forked process has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="regard", initializer=torch.set_num_threads, initargs=(1,))
