"""The tensors, modules and parameters that scores, biases, masks and normalisers contain.

These are called parts here: each is a frozen dataclass or an `nn.Module`, and may contain other parts.
"""

from collections.abc import Iterator
from dataclasses import replace
from types import NoneType
from typing import TypeVar

from torch import Tensor, nn

Part = TypeVar("Part")

NUMBER = (int, float, NoneType)
"""Types of fields that are skipped in the search for tensors; most fields of a part have one of them."""


def tensors_in(part: object) -> tuple[Tensor, ...]:
    """Return every tensor that a mask, score or normaliser contains, directly or in parts and modules inside it."""
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
        if not isinstance(value, NUMBER):  # saves time in every call of attend
            tensors += tensors_in(value)
    return tensors


def modules_in(part: object) -> tuple[nn.Module, ...]:
    """Return the modules in a score, normaliser or other part, such as the `RelativeBias` in `ScaledDot(bias=…)`.

    A part that is a module itself is returned alone.
    """
    if isinstance(part, nn.Module):
        return (part,)
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(module for name in names for module in modules_in(getattr(part, name)))


def parts_of_module(module: nn.Module) -> list[object]:
    """Return the dataclass instances, such as a bias or a mask, among the attributes of a module and its submodules."""
    values = [value for inner in module.modules() for value in vars(inner).values()]
    return [value for value in values if not isinstance(value, dict) and hasattr(value, "__dataclass_fields__")]


def parameters_in(part: object) -> tuple[nn.Parameter, ...]:
    """Return every parameter in the dataclass fields of a score or normaliser; parameters of modules are left out."""
    if isinstance(part, nn.Parameter):
        return (part,)
    if isinstance(part, nn.Module):
        return ()
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(parameter for name in names for parameter in parameters_in(getattr(part, name)))


def replace_parameters(part: Part, parameters: Iterator[Tensor]) -> Part:
    """Return a copy of a score or normaliser with new parameters, in the order in which `parameters_in` returns them.

    Scores and normalisers are frozen, but the layer that trains them may get new parameters: from load_state_dict with
    assign=True, from to_empty or from torch.func.functional_call.

    >>> import torch
    >>> from regard import Softmax
    >>> before, after = torch.nn.Parameter(torch.zeros(2)), torch.ones(2)
    >>> replace_parameters(Softmax(sinks=before), iter([after])).sinks
    tensor([1., 1.])
    """
    if isinstance(part, nn.Parameter):
        return next(parameters)  # type: ignore[return-value]  # a tensor in place of a parameter
    if isinstance(part, nn.Module):
        return part
    values = {name: getattr(part, name) for name in getattr(part, "__dataclass_fields__", ())}
    new = {
        name: replace_parameters(value, parameters) for name, value in values.items() if not isinstance(value, NUMBER)
    }
    changed = {name: value for name, value in new.items() if value is not values[name]}
    return replace(part, **changed) if changed else part  # type: ignore[type-var]  # it has fields, so it is a dataclass
