"""Values read from a file, compared with the types that the fields of a dataclass are annotated with."""

from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

LARGEST_INTEGER = 2**53
"""The largest integer that a file may hold: every JSON reader has it exactly, and sums of a few fit 64 bits."""


def check_fields(kind: Any, values: Mapping[str, object]) -> None:
    """Raise TypeError if a value has another type than the field of its name in a dataclass.

    >>> from regard import Window
    >>> check_fields(Window, {"before": 2, "after": True})
    Traceback (most recent call last):
      ...
    TypeError: after=True must be int.
    """
    hints = get_type_hints(kind)
    for name, value in values.items():
        if name not in hints:
            raise TypeError(f"{kind.__name__} has no {name!r}.")
        if not matches(value, hints[name]):
            words = getattr(hints[name], "__name__", str(hints[name]))
            raise TypeError(f"{name}={value!r:.50} must be {words}.")


def matches(value: object, hint: Any) -> bool:
    """Return whether a value has the type of an annotation; an int is a float, True is no int.

    >>> matches(2, float), matches(True, int), matches("left", Literal["left", "right"]), matches((1, 2.0), tuple[int])
    (True, False, True, False)
    """
    origin = get_origin(hint)
    if hint is Any:
        return True
    if hint is None:
        hint = NoneType
    if origin in (Union, UnionType):
        return any(matches(value, part) for part in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if origin in (tuple, list, Collection):
        return isinstance(value, tuple | list) and all(matches(part, get_args(hint)[0]) for part in value)
    if hint in (int, float) and type(value) is int:
        return abs(value) <= LARGEST_INTEGER
    if hint in (int, float, bool, str, NoneType):
        return type(value) is hint
    return isinstance(value, hint)
