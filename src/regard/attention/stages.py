"""What the parts of attention (masks, scores, normalisers) hold: tensors, modules, parameters."""

from collections.abc import Iterator
from dataclasses import replace
from types import NoneType
from typing import TypeVar

from torch import Tensor, nn

Part = TypeVar("Part")

NUMBER = (int, float, NoneType)
"""What a part holds most often."""


def tensors_in(part: object) -> tuple[Tensor, ...]:
    """Every tensor that a part holds, in itself or in the parts that it joins."""
    if isinstance(part, Tensor):
        return (part,)
    if isinstance(part, nn.Module):
        return (
            *part.parameters(),
            *part.buffers(),
            *(tensor for own in parts_of_module(part) for tensor in tensors_in(own)),
        )
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


def parts_of_module(module: nn.Module) -> list[object]:
    """The parts that a module and those within it hold and that are no modules themselves."""
    held = [own for inner in module.modules() for own in vars(inner).values()]
    return [own for own in held if not isinstance(own, dict) and hasattr(own, "__dataclass_fields__")]


def parameters_in(part: object) -> tuple[nn.Parameter, ...]:
    """Every parameter that a part holds, in itself or in the parts that it joins; those of modules are theirs."""
    if isinstance(part, nn.Parameter):
        return (part,)
    if isinstance(part, nn.Module):
        return ()
    names = getattr(part, "__dataclass_fields__", ())
    return tuple(parameter for name in names for parameter in parameters_in(getattr(part, name)))


def replace_parameters(part: Part, parameters: Iterator[Tensor]) -> Part:
    """The same part with the next of these in place of each parameter of `parameters_in`.

    A part is frozen, but the parameters of the module that it belongs to may become others: load_state_dict with
    assign=True, to_empty and torch.func.functional_call put new ones in their place.

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
    held = {name: getattr(part, name) for name in getattr(part, "__dataclass_fields__", ())}
    new = {name: replace_parameters(own, parameters) for name, own in held.items() if not isinstance(own, NUMBER)}
    changed = {name: own for name, own in new.items() if own is not held[name]}
    return replace(part, **changed) if changed else part  # type: ignore[type-var]  # of what has fields
