"""jaxtyping's checks of shapes and types for the tests, limited to the first calls of each function in a test.

A search or a training calls the same functions thousands of times, and a check takes longer than most of these calls.
A function inside a function is made anew in each call, and preparing its checks takes as long as 50 checks.
"""

import functools
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import jaxtyping

CHECKED_CALLS = 3
"""The number of calls of a function that are checked in each of the first tests that call it; in later tests, 1."""

FIRST_TESTS = 30
"""The number of tests with `CHECKED_CALLS` checked calls of a function; of an inner function, all that are checked."""

always_checked = jaxtyping.jaxtyped
tests_begun = 0


def begin_test() -> None:
    """Reset the counts of calls, so that the first calls of every function are checked in the next test."""
    global tests_begun
    tests_begun += 1


class Budget:
    """How many calls of a function are still to be checked in this test, which is the `n_tests`th that calls it."""

    __slots__ = ("later", "left", "n_tests", "test")

    def __init__(self, later: int = 1) -> None:
        self.test, self.left, self.n_tests, self.later = -1, 0, 0, later

    def spend(self) -> bool:
        """Return whether the next call is to be checked, and count it."""
        if self.test != tests_begun:
            self.test, self.n_tests = tests_begun, self.n_tests + 1
            self.left = CHECKED_CALLS if self.n_tests <= FIRST_TESTS else self.later
        self.left -= 1
        return self.left >= 0


inner_budgets: defaultdict[tuple[str, str], Budget] = defaultdict(lambda: Budget(later=0))
"""The budget of each function inside a function, by module and qualified name: all its definitions share one."""


def jaxtyped(decorated: Any = None, *, typechecker: Any = None) -> Any:
    """Decorate as `jaxtyping.jaxtyped` does, with checks for only the first calls of a function in each test."""
    if decorated == "context":  # used in a `with` statement, not as a decorator
        return always_checked("context")
    if decorated is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if inspect.isclass(decorated):
        plain = decorated.__init__
        always_checked(decorated, typechecker=typechecker)  # puts another __init__ into a dataclass
        if decorated.__init__ is not plain:
            checked = decorated.__init__
            decorated.__init__ = limited(plain, lambda: checked, Budget())  # type: ignore[method-assign]
        return decorated
    if not inspect.get_annotations(decorated):
        return decorated
    name = decorated.__qualname__
    budget = inner_budgets[decorated.__module__, name] if "<locals>" in name else Budget()
    return limited(decorated, lambda: always_checked(decorated, typechecker=typechecker), budget)


def limited(plain: Any, make_checked: Callable[[], Any], budget: Budget) -> Any:
    """Return a function that checks shapes and types in its first calls in each test, and not in later calls.

    Args:
        make_checked: returns `plain` with checks; called once, before the first call that is checked.
    """
    checked = None

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        compiler = sys.modules.get("torch.compiler")
        if (compiler and compiler.is_compiling()) or not budget.spend():  # compiled code must not depend on the count
            return plain(*args, **kwargs)
        checked = checked or make_checked()
        return checked(*args, **kwargs)

    return call


jaxtyping.jaxtyped = jaxtyped  # type: ignore[assignment]
