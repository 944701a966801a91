"""Check that values read from a file have the types of the fields of a dataclass."""

from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jaxtyping import jaxtyped

LARGEST_INTEGER = 2**53
"""The largest absolute value of an integer that `has_type` accepts.

A float64 represents all integers up to it exactly, and the sum of a few such integers fits into 64 bits.
"""


def check_fields(dataclass: Any, values: Mapping[str, object]) -> None:
    """Raise TypeError if the dataclass has no field of a value's name, or if the field has another type."""
    hints = get_type_hints(dataclass)
    for name, value in values.items():
        if name not in hints:
            raise TypeError(f"{dataclass.__name__} has no {name!r}.")
        if not has_type(value, hints[name]):
            raise TypeError(f"{name}={value!r:.50} must be {name_of(hints[name])}.")


def name_of(hint: Any) -> str:
    """Return the name of a type for an error message; for a `Literal`, its values.

    >>> name_of(int), name_of(tuple[int, ...]), name_of(Literal["left", "right"])
    ('int', 'tuple[int, ...]', "one of 'left', 'right'")
    """
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    return str(hint) if get_args(hint) else getattr(hint, "__name__", str(hint))


def has_type(value: object, hint: Any) -> bool:
    """Return whether a value has the type of a type hint.

    An int also counts as a float, and a list as a tuple; True does not count as an int. An integer beyond
    LARGEST_INTEGER is neither an int nor a float. All items of a tuple or list must have the hint's first item type.

    >>> has_type(2, float), has_type(True, int), has_type("left", Literal["left", "right"])
    (True, False, True)
    >>> has_type((1, 2.0), tuple[int])
    False
    """
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(has_type(value, part) for part in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if origin in (tuple, list, Collection):
        return isinstance(value, tuple | list) and all(has_type(part, get_args(hint)[0]) for part in value)
    if hint in (int, float) and type(value) is int:
        return abs(value) <= LARGEST_INTEGER
    if hint in (int, float, bool, str, NoneType):
        return type(value) is hint
    with jaxtyped("context"):  # axes with the same name in other values may have another size
        return isinstance(value, hint)
