"""The tensors, modules and parameters inside scores, biases, masks and normalisers.

Each of these objects is a frozen dataclass or an `nn.Module`, and may contain others, as a `ScaledDot` contains a bias.
"""

from collections.abc import Iterator
from dataclasses import replace
from types import NoneType
from typing import TypeVar

from torch import Tensor, nn

Part = TypeVar("Part")

NUMBER_TYPES = (int, float, NoneType)
"""Types of dataclass fields that cannot contain tensors, so that the search for tensors skips them."""


def tensors_in(part: object) -> tuple[Tensor, ...]:
    """Return every tensor in a mask, score or normaliser, and in the biases, masks and modules that it contains."""
    if isinstance(part, Tensor):
        return (part,)
    if isinstance(part, nn.Module):
        attributes = [value for module in part.modules() for value in vars(module).values()]
        dataclasses = [value for value in attributes if hasattr(value, "__dataclass_fields__")]
        inner = (tensor for value in dataclasses for tensor in tensors_in(value))
        return (*part.parameters(), *part.buffers(), *inner)
    tensors: tuple[Tensor, ...] = ()
    for name in getattr(part, "__dataclass_fields__", ()):
        value = getattr(part, name)
        if not isinstance(value, NUMBER_TYPES):  # skipping numbers saves time in every call of attend
            tensors += tensors_in(value)
    return tensors


def modules_in(part: object) -> tuple[nn.Module, ...]:
    """Return the modules inside a score or normaliser, such as the `RelativeBias` in `ScaledDot(bias=…)`.

    If the score or normaliser is itself a module, return this module alone.
    """
    if isinstance(part, nn.Module):
        return (part,)
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(module for name in names for module in modules_in(getattr(part, name)))


def parameters_in(part: object) -> tuple[nn.Parameter, ...]:
    """Return every parameter in the dataclass fields of a score or normaliser, except for the parameters of modules."""
    if isinstance(part, nn.Parameter):
        return (part,)
    if isinstance(part, nn.Module):
        return ()
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(parameter for name in names for parameter in parameters_in(getattr(part, name)))


def replace_parameters(part: Part, parameters: Iterator[Tensor]) -> Part:
    """Return a copy of a score or normaliser with new parameters, given in the order of `parameters_in`.

    Scores and normalisers are frozen dataclasses, so a copy is needed when load_state_dict with assign=True, to_empty
    or torch.func.functional_call replaces the parameters of the layer that contains them.

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
        name: replace_parameters(value, parameters)
        for name, value in values.items()
        if not isinstance(value, NUMBER_TYPES)
    }
    changed = {name: value for name, value in new.items() if value is not values[name]}
    return replace(part, **changed) if changed else part  # type: ignore[type-var]  # it has fields, so it is a dataclass
