"""What the parts of attention (masks, scores, normalisers) are made of, and how they introduce themselves."""

from dataclasses import MISSING, Field, fields
from types import NoneType
from typing import Any

from torch import Tensor, nn

NUMBER = (int, float, NoneType)
"""What a part holds most often."""


def introduce(part: Any) -> str:
    """The repr of a dataclass, showing only what is not its default, and tensors by their shape.

    >>> from regard.attention.masks import Window
    >>> Window(before=3, after=0)
    Window(before=3, after=0)
    """
    given = {f.name: getattr(part, f.name) for f in fields(part) if not is_default(f, getattr(part, f.name))}
    return f"{type(part).__name__}({', '.join(f'{name}={brief(value)}' for name, value in given.items())})"


def is_default(field: Field[Any], value: object) -> bool:
    """Whether a dataclass field has the value that it has when nothing is given."""
    return not isinstance(value, Tensor) and field.default is not MISSING and bool(value == field.default)


def brief(value: object) -> str:
    """A value, tensors by dtype and shape."""
    if isinstance(value, Tensor):
        return f"<{str(value.dtype).removeprefix('torch.')} {list(value.shape)}>"
    return repr(value)


def a(part: object) -> str:
    """What something is that is not what it should be.

    >>> a(3.0), a(float)
    ('a float', 'the class float')
    """
    return f"the class {part.__name__}" if isinstance(part, type) else f"a {type(part).__name__}"


def tensors_in(part: object) -> tuple[Tensor, ...]:
    """Every tensor that a part holds, in itself or in the parts that it joins."""
    if isinstance(part, Tensor):
        return (part,)
    if isinstance(part, nn.Module):
        return (*part.parameters(), *part.buffers())
    tensors: tuple[Tensor, ...] = ()
    for name in getattr(part, "__dataclass_fields__", ()):
        held = getattr(part, name)
        if not isinstance(held, NUMBER):  # most parts hold no tensor, and every call of attend asks
            tensors += tensors_in(held)
    return tensors


def modules_in(part: object) -> tuple[nn.Module, ...]:
    """Every module that a part is or holds, such as the rule of a bias."""
    if isinstance(part, nn.Module):
        return (part,)
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(module for name in names for module in modules_in(getattr(part, name)))
