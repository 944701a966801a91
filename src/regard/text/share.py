"""Divide work among several processes: each process does its share, and then all exchange their results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Share:
    """The part that this process has in work that several processes share; by default, one process does all the work.

    Attributes:
        index: the number of this process, from 0.
        n: the number of processes.
        exchange: a function that all processes call at the same time, each with the result of its part;
            it returns the results of all processes, in the order of their numbers.
    """

    index: int = 0
    n: int = 1
    exchange: Callable[[Any], list[Any]] = lambda part: [part]

    def own(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return this process's part of the items. The parts of all processes, joined in order, are all items.

        >>> [list(Share(index, 3).own("abcdefgh")) for index in range(3)]
        [['a', 'b', 'c'], ['d', 'e', 'f'], ['g', 'h']]
        """
        size = -(-len(items) // self.n)
        return items[self.index * size : (self.index + 1) * size]


ALONE = Share()
