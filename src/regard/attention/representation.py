"""The reprs of masks, scores and normalisers, and the names of values and types in error messages."""

from dataclasses import MISSING, fields
from inspect import isroutine
from typing import Any

from torch import Tensor


class Described:
    """The base class of dataclasses whose repr shows only those fields that differ from their defaults."""

    __slots__ = ()

    def __repr__(self) -> str:
        return describe(self)


def describe(part: Any) -> str:
    """Return the repr of a dataclass instance, with only those fields that differ from their default."""
    changed = []
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, Tensor) or field.default is MISSING or value != field.default:
            changed.append(f"{field.name}={short_repr(value)}")
    return f"{type(part).__name__}({', '.join(changed)})"


def short_repr(value: object) -> str:
    if isinstance(value, Tensor):
        return f"<{str(value.dtype).removeprefix('torch.')} {list(value.shape)}>"
    return repr(value)


def type_name(part: object) -> str:
    """Return the type of an argument in words, for an error message.

    >>> type_name(3.0), type_name(3), type_name(float), type_name(len), type_name(None)
    ('a float', 'an int', 'the class float', 'the function len', 'None')
    """
    if part is None:
        return "None"
    if isinstance(part, type):
        return f"the class {part.__name__}"
    if isroutine(part):
        return f"the function {part.__name__}"
    name = type(part).__name__
    return f"{'an' if name[0] in 'AEIOUaeio' else 'a'} {name}"  # a name that begins with u is one such as uint8
