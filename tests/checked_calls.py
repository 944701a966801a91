"""jaxtyping's checks of shapes and types, under which the tests run, for the first calls of each function in a test.

A search or a training calls the same functions thousands of times, and a check takes longer than most of them.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping

CHECKED_CALLS = 20
"""How many calls of a function are checked in each test."""

always_checked = jaxtyping.jaxtyped
tests_begun = 0


def begin_test() -> None:
    """Check the first calls of every function again."""
    global tests_begun
    tests_begun += 1


def jaxtyped(decorated: Any = None, *, typechecker: Any) -> Any:
    """Decorate as `jaxtyping.jaxtyped` does, with checks for only the first calls of a function in each test.

    Functions inside functions are not checked: their checks would be made anew at each definition.
    """
    if decorated is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if inspect.isclass(decorated):
        plain = decorated.__init__
        always_checked(decorated, typechecker=typechecker)  # puts another __init__ into a dataclass
        if decorated.__init__ is not plain:
            checked = decorated.__init__
            decorated.__init__ = limited(plain, lambda: checked)
        return decorated
    if "<locals>" in decorated.__qualname__:
        return decorated
    return limited(decorated, lambda: always_checked(decorated, typechecker=typechecker))


def limited(plain: Any, make_checked: Callable[[], Any]) -> Any:
    """Return a function that calls another with checks for the first calls in each test, and later without.

    Args:
        plain: the function without checks.
        make_checked: returns the function with checks; called once, before the first call.
    """
    checked, test, left = None, -1, 0

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked, test, left
        if test != tests_begun:
            test, left = tests_begun, CHECKED_CALLS
        if left == 0:
            return plain(*args, **kwargs)
        left -= 1
        checked = checked or make_checked()
        return checked(*args, **kwargs)

    return call


jaxtyping.jaxtyped = jaxtyped
