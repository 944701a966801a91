"""Errors for code that is written as for a PyTorch function: they say what to write instead."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def explain_arguments_of(
    torch_name: str, positional: str, named: Mapping[str, str]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function that may be called with the arguments of PyTorch's `torch_name` by mistake.

    The decorated function then raises a TypeError that says what to write instead. For any other argument that the
    function does not have, the error names the most similar arguments.

    Args:
        positional: what to write in place of too many positional arguments.
        named: what to write in place of each argument of `torch_name` that the decorated function does not have.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name_of_call = function.__qualname__.removesuffix(".__init__").removesuffix(".forward")
        parameters = signature(function).parameters
        max_positional = sum(one.kind is Parameter.POSITIONAL_OR_KEYWORD for one in parameters.values())
        names = [name for name in parameters if name != "self"]

        @wraps(function)
        def with_hints(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError:
                hints = [positional] if len(args) > max_positional else []
                hints += [named[name] for name in kwargs if name in named]
                unknown = [name for name in kwargs if name not in parameters]
                if unknown and not hints:
                    near = ", ".join(get_close_matches(unknown[0], names) or names)
                    raise TypeError(f"{name_of_call} has no argument {unknown[0]!r}; nearest: {near}.") from None
                if not hints:
                    raise
                text = "; ".join(dict.fromkeys(hints))
                raise TypeError(f"{name_of_call} has other arguments than {torch_name}: {text}.") from None

        return with_hints

    return decorate


class NotAPair:
    """The base class of results that PyTorch's functions return as a pair, such as the output and the weights."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        first = next(name for name in ("output", "context") if hasattr(self, name))
        raise TypeError(
            f"{type(self).__name__} is one object and cannot be unpacked as a pair; give it a name, such as seen, and "
            f"read seen.{first} and seen.pattern."
        )
