"""An error for calls with the arguments of a PyTorch function; it says what to write instead of each of them."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def explain_arguments_of(
    torch_name: str, positional: str, named: Mapping[str, str]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function that may be called with the arguments of PyTorch's `torch_name` by mistake.

    The decorated function then raises a TypeError that says what to write instead.

    Args:
        positional: what to write in place of too many positional arguments.
        named: what to write in place of each argument of `torch_name` that the decorated function does not have.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name_of_call = function.__qualname__.removesuffix(".__init__").removesuffix(".forward")
        parameters = signature(function).parameters.values()
        max_positional = sum(parameter.kind is Parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)

        @wraps(function)
        def with_hints(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError:
                hints = [positional] if len(args) > max_positional else []
                hints += [named[name] for name in kwargs if name in named]
                if not hints:
                    raise
                text = "; ".join(dict.fromkeys(hints))
                raise TypeError(f"{name_of_call} has other arguments than {torch_name}: {text}.") from None

        return with_hints

    return decorate
