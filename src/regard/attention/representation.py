"""The reprs of masks, scores and normalisers, and the names of values and types in error messages."""

from dataclasses import MISSING, fields, is_dataclass
from inspect import isroutine
from typing import Any

from torch import Tensor


class Described:
    """The base class of objects whose repr shows only those attributes that differ from the defaults of a dataclass."""

    __slots__ = ()

    def __repr__(self) -> str:
        return describe(self)


def attributes_of(part: Any) -> dict[str, Any]:
    """Return the fields of a dataclass instance, or the attributes of a `Described` object that is no dataclass."""
    if hasattr(part, "__dataclass_fields__"):
        return {name: getattr(part, name) for name in part.__dataclass_fields__}
    return vars(part) if isinstance(part, Described) else {}


def describe(part: Any) -> str:
    """Return the repr of an object, with only those attributes that differ from the defaults of its dataclass."""
    defaults = {field.name: field.default for field in fields(part)} if is_dataclass(part) else {}
    changed = []
    for name, value in attributes_of(part).items():
        default = defaults.get(name, MISSING)
        if isinstance(value, Tensor) or default is MISSING or value != default:
            changed.append(f"{name}={short_repr(value)}")
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
