"""How the parts of attention (masks, scores, normalisers) introduce themselves."""

from dataclasses import MISSING, Field, fields
from typing import Any

from torch import Tensor


def describe(part: Any) -> str:
    """The repr of a dataclass, showing only what is not its default, and tensors by their shape.

    >>> from regard.attention.masks import Window
    >>> Window(before=3, after=0)
    Window(before=3, after=0)
    """
    given = {f.name: getattr(part, f.name) for f in fields(part) if not is_default_value(f, getattr(part, f.name))}
    return f"{type(part).__name__}({', '.join(f'{name}={short_repr(value)}' for name, value in given.items())})"


def is_default_value(field: Field[Any], value: object) -> bool:
    """Whether a dataclass field has the value that it has when nothing is given."""
    return not isinstance(value, Tensor) and field.default is not MISSING and bool(value == field.default)


def short_repr(value: object) -> str:
    """A value, tensors by dtype and shape."""
    if isinstance(value, Tensor):
        return f"<{str(value.dtype).removeprefix('torch.')} {list(value.shape)}>"
    return repr(value)


def type_name(part: object) -> str:
    """What something is that is not what it should be.

    >>> type_name(3.0), type_name(float)
    ('a float', 'the class float')
    """
    return f"the class {part.__name__}" if isinstance(part, type) else f"a {type(part).__name__}"
