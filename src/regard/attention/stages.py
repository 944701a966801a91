"""The stages of attention (scores, biases, masks, normalisers): tensors and modules inside them, and their equality.

A stage is a frozen dataclass, an object of a class that a user wrote, or an `nn.Module`. It may contain other stages,
as a `ScaledDot` contains a bias, also in tuples, lists and dicts.

nn.Module finds no parameters in the attributes of other objects. A layer that has a score or normaliser registers
their parameters by `field_modules` and `field_parameters`, so that they are trained, moved to a device and saved with
the layer. But load_state_dict with assign=True, `to_empty` and `torch.func.functional_call` replace the registered
parameters by new tensors, and the stage keeps the old ones. Before each use, the layer therefore copies its
score and normaliser with the registered parameters, by `with_parameters`.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from types import NoneType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.representation import Described, attributes_of

Part = TypeVar("Part")

NUMBER_TYPES = (int, float, NoneType)
"""Types of attributes that cannot contain tensors, so that the search for tensors skips them."""


class EqualFields:
    """The base class of dataclasses whose == compares all fields; a tensor equals only itself.

    The elements of tensors are not compared: on a GPU, reading them would wait for all queued kernels.
    """

    __slots__ = ()  # so that subclasses may have slots

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(map(are_equal, values_of(self), values_of(other)))

    def __hash__(self) -> int:
        return hash((type(self), *values_of(self)))


def are_equal(one: object, two: object) -> bool:
    if isinstance(one, Tensor) or isinstance(two, Tensor):
        return one is two
    return one is two or one == two


def values_of(part: Any) -> list[object]:
    return [getattr(part, field.name) for field in fields(part)]


def tensors_in(*parts: object) -> list[Tensor]:
    """Return every tensor in masks, scores and normalisers, and in the biases, masks and modules that they contain."""
    tensors: list[Tensor] = []
    for part in parts:
        if isinstance(part, Tensor):
            tensors.append(part)
        elif isinstance(part, nn.Module):
            tensors += [*part.parameters(), *part.buffers()]
            # parameters() and buffers() do not return attributes that are plain tensors, or stages with tensors
            attributes = [value for module in part.modules() for value in vars(module).values()]
            tensors += tensors_in(*(value for value in attributes if isinstance(value, Tensor) or is_stage(value)))
        elif hasattr(part, "__dataclass_fields__"):
            for name in part.__dataclass_fields__:
                value = getattr(part, name)
                if not isinstance(value, NUMBER_TYPES):  # skipping numbers saves time in every call of attend
                    tensors += tensors_in(value)
        else:
            tensors += tensors_in(
                *(value for value in named_values(part).values() if not isinstance(value, NUMBER_TYPES))
            )
    return tensors


def is_stage(part: object) -> bool:
    return isinstance(part, Described) or hasattr(part, "__dataclass_fields__")


def named_values(part: Any) -> Mapping[Any, Any]:
    """Return the attributes of a stage, or the items of a tuple, list or dict; any other object has none."""
    if isinstance(part, NUMBER_TYPES):  # torch.compile cannot search symbolic numbers for attributes
        return {}
    if isinstance(part, dict):
        return part
    return dict(enumerate(part)) if isinstance(part, tuple | list) else attributes_of(part)


def instances_in(part: object, kind: type[Part]) -> list[Part]:
    """Return the modules or parameters (`kind`) in a score or normaliser; none from inside a module."""
    if isinstance(part, kind):
        return [part]
    if isinstance(part, nn.Module):
        return []
    instances: list[Part] = []
    for value in named_values(part).values():
        instances += instances_in(value, kind)
    return instances


def field_modules(*parts: object) -> nn.ModuleList | None:
    """Return the modules in the attributes of scores and normalisers, such as a `RelativeBias`; None if there are none.

    A score or normaliser that is itself an nn.Module is skipped: as an attribute of the layer, it is registered anyway.
    """
    modules: list[nn.Module] = []
    for part in parts:
        if not isinstance(part, nn.Module):
            modules += instances_in(part, nn.Module)
    return nn.ModuleList(modules) if modules else None


def field_parameters(*parts: object) -> nn.ParameterList | None:
    """Return the parameters in the attributes of scores and normalisers, such as `Softmax.sinks`, or None.

    The parameters of modules are left out, since they are registered with their module.
    """
    parameters = [parameter for part in parts for parameter in instances_in(part, nn.Parameter)]
    return nn.ParameterList(parameters) if parameters else None


def with_parameters(parameters: Iterable[Tensor] | None, *parts: Any) -> tuple[Any, ...]:
    """Return copies of scores and normalisers in which `parameters` replace, in order, those of `field_parameters`."""
    if parameters is None:
        return parts
    remaining = iter(parameters)
    return tuple(replace_parameters(part, remaining) for part in parts)


def replace_parameters(part: Any, parameters: Iterator[Tensor]) -> Any:
    """Copy a score or normaliser with new `parameters`, in order; modules in it are not copied and not changed."""
    if isinstance(part, nn.Parameter):
        return next(parameters)
    if isinstance(part, nn.Module):
        return part
    return with_new_values(part, lambda value: replace_parameters(value, parameters))


def on_device(part: Part, device: torch.device) -> Part:
    """Return a copy of a tensor, mask, score, normaliser or statistics, with all tensors on the given device."""
    if isinstance(part, torch.device):  # a field of `Rounded`, a bias
        return device  # type: ignore[return-value]
    if isinstance(part, nn.Module):
        is_on_device = all(tensor.device == device for tensor in tensors_in(part))
        return part if is_on_device else copy.deepcopy(part).to(device)
    if isinstance(part, Tensor):
        return part.to(device)  # type: ignore[return-value]
    return with_new_values(part, lambda value: on_device(value, device))


def with_new_values(part: Part, new_value: Callable[[Any], Any]) -> Part:
    """Return a copy of a stage, tuple, list or dict, in which new_value(value) replaces each value of `named_values`.

    The object itself is returned if no value changes, and any other object is returned as it is.
    """
    old = named_values(part)
    new = {name: new_value(value) for name, value in old.items()}
    changed = {name: value for name, value in new.items() if value is not old[name]}
    if not changed:
        return part
    if is_dataclass(part):
        return replace(part, **changed)  # type: ignore[type-var]
    if isinstance(part, tuple | list):
        return getattr(type(part), "_make", type(part))(new.values())  # named tuples are made by `_make`
    if isinstance(part, dict):
        return new  # type: ignore[return-value]
    copied = copy.copy(part)
    vars(copied).update(changed)
    return copied
