"""What the parts of attention (masks, scores, normalisers) are made of, and how they introduce themselves."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, replace
from types import NoneType
from typing import Any, TypeVar

from torch import Tensor, nn

Part = TypeVar("Part")

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
        return (*part.parameters(), *part.buffers(), *(tensor for own in parts_of(part) for tensor in tensors_in(own)))
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


def parts_of(module: nn.Module) -> list[object]:
    """The parts that a module and those within it hold and that are no modules themselves."""
    held = [own for inner in module.modules() for own in vars(inner).values()]
    return [own for own in held if hasattr(own, "__dataclass_fields__")]


def parameters_in(part: object) -> tuple[nn.Parameter, ...]:
    """Every parameter that a part holds, in itself or in the parts that it joins; those of modules are theirs."""
    if isinstance(part, nn.Parameter):
        return (part,)
    if isinstance(part, nn.Module):
        return ()
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(parameter for name in names for parameter in parameters_in(getattr(part, name)))


def with_parameters(part: Part, parameters: Iterator[Tensor]) -> Part:
    """The same part with the next of these in place of each parameter of `parameters_in`.

    A part is frozen, but the parameters of the module that it belongs to may become others: load_state_dict with
    assign=True, to_empty and torch.func.functional_call put new ones in their place.

    >>> import torch
    >>> from regard import Softmax
    >>> before, after = torch.nn.Parameter(torch.zeros(2)), torch.ones(2)
    >>> with_parameters(Softmax(sinks=before), iter([after])).sinks
    tensor([1., 1.])
    """
    if isinstance(part, nn.Parameter):
        return next(parameters)  # type: ignore[return-value]  # a parameter for a parameter
    if isinstance(part, nn.Module):
        return part
    held = {name: getattr(part, name) for name in getattr(part, "__dataclass_fields__", ())}
    new = {name: with_parameters(own, parameters) for name, own in held.items() if not isinstance(own, NUMBER)}
    changed = {name: own for name, own in new.items() if own is not held[name]}
    return replace(part, **changed) if changed else part  # type: ignore[type-var]  # of what has fields
