"""The tensors, modules and parameters inside the parts of attention: masks, scores and normalisers."""

from collections.abc import Iterator
from dataclasses import replace
from types import NoneType
from typing import TypeVar

from torch import Tensor, nn

Part = TypeVar("Part")

NUMBER = (int, float, NoneType)
"""Types of most fields of a part; they contain no tensor."""


def tensors_in(part: object) -> tuple[Tensor, ...]:
    """Return every tensor in a part and in the parts inside it."""
    if isinstance(part, Tensor):
        return (part,)
    if isinstance(part, nn.Module):
        return (
            *part.parameters(),
            *part.buffers(),
            *(tensor for inner in parts_of_module(part) for tensor in tensors_in(inner)),
        )
    tensors: tuple[Tensor, ...] = ()
    for name in getattr(part, "__dataclass_fields__", ()):
        value = getattr(part, name)
        if not isinstance(value, NUMBER):  # saves time in every call of attend, as most parts have no tensor
            tensors += tensors_in(value)
    return tensors


def modules_in(part: object) -> tuple[nn.Module, ...]:
    """Return every module that a part is or contains, such as a `RelativeBias` inside a `ScaledDot`."""
    if isinstance(part, nn.Module):
        return (part,)
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(module for name in names for module in modules_in(getattr(part, name)))


def parts_of_module(module: nn.Module) -> list[object]:
    """Return the dataclass parts among the attributes of a module and of the modules inside it."""
    values = [value for inner in module.modules() for value in vars(inner).values()]
    return [value for value in values if not isinstance(value, dict) and hasattr(value, "__dataclass_fields__")]


def parameters_in(part: object) -> tuple[nn.Parameter, ...]:
    """Return every parameter in a part and in the parts inside it, but for the parameters of modules."""
    if isinstance(part, nn.Parameter):
        return (part,)
    if isinstance(part, nn.Module):
        return ()
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(parameter for name in names for parameter in parameters_in(getattr(part, name)))


def replace_parameters(part: Part, parameters: Iterator[Tensor]) -> Part:
    """Return a copy of a part in which the next of `parameters` replaces each parameter that `parameters_in` returns.

    A part is frozen, but the module that it belongs to may get new parameters: from load_state_dict with assign=True,
    to_empty or torch.func.functional_call.

    >>> import torch
    >>> from regard import Softmax
    >>> before, after = torch.nn.Parameter(torch.zeros(2)), torch.ones(2)
    >>> replace_parameters(Softmax(sinks=before), iter([after])).sinks
    tensor([1., 1.])
    """
    if isinstance(part, nn.Parameter):
        return next(parameters)  # type: ignore[return-value]  # a parameter for a parameter
    if isinstance(part, nn.Module):
        return part
    values = {name: getattr(part, name) for name in getattr(part, "__dataclass_fields__", ())}
    new = {
        name: replace_parameters(value, parameters) for name, value in values.items() if not isinstance(value, NUMBER)
    }
    changed = {name: value for name, value in new.items() if value is not values[name]}
    return replace(part, **changed) if changed else part  # type: ignore[type-var]  # of what has fields
