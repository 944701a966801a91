"""Scores, masks, biases and normalisers as JSON in a trace file.

Here, a rule means a score, mask, bias or normaliser, or a part of one. A trace file contains no code: a rule is stored
as the name of its class and its fields, and only classes of regard are loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import signature
from pkgutil import walk_packages
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import masks, normalise, scores
from regard.attention.masks import Mask
from regard.attention.normalise.hard import Choice
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.scores.biases.bias import Bias
from regard.attention.scores.score import Score
from regard.errors import InputError
from regard.json_file import Json
from regard.tracing.watching.diagonal_bias import DiagonalBias
from regard.typed_fields import check_fields

BASE_CLASSES = (Score, Mask, Normaliser, Bias, DiagonalBias, Choice)
"""The base classes of rules (scores, masks, …). A trace file may contain objects of these and of their subclasses."""

JSON_SCALARS = (type(None), bool, int, float, str)


@dataclass(slots=True)
class TensorTable:
    """The tensors to write into a file. Each tensor is stored once; its name in the file is a number.

    Attributes:
        tensors: copies of the tensors on the CPU, by name.
        names: the name of each tensor, by memory address, shape, stride, type and device.
        originals: the tensors that were added, kept so that no other tensor gets the same memory address.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    originals: list[Tensor] = field(default_factory=list)

    def add(self, tensor: Tensor) -> str:
        """Return the name of a tensor in this table; add a copy of the tensor first if the table lacks it."""
        identity = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device
        if identity not in self.names:
            self.names[identity] = str(len(self.tensors))
            self.tensors[self.names[identity]] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            self.originals.append(tensor)
        return self.names[identity]


def to_json(value: object, table: TensorTable) -> Json:
    """Return a rule (score, mask, bias or normaliser), or a field of a rule, as JSON that `from_json` reads."""
    if isinstance(value, JSON_SCALARS):
        return value
    if isinstance(value, Tensor):
        return {"tensor": table.add(value)}
    if isinstance(value, tuple | list):
        return {"several": [to_json(part, table) for part in value]}
    if isinstance(value, torch.dtype | torch.device):
        return {"torch": str(value).removeprefix("torch."), "kind": type(value).__name__}
    has_submodules = bool(getattr(value, "_modules", None))  # only parameters and buffers of the rule itself are stored
    if has_submodules or rule_classes().get(type(value).__name__) is not type(value):
        raise InputError(
            f"this trace cannot be saved: {type(value).__name__} is not one of regard's own scores, masks and "
            "normalisers, so the file could not be read back."
        )
    parts = {name: to_json(part, table) for name, part in parts_of(value).items()}
    document: Json = {"rule": type(value).__name__, "parts": parts}
    if isinstance(value, nn.Module):
        for kind in ("_parameters", "_buffers"):
            document[kind] = {name: table.add(tensor) for name, tensor in getattr(value, kind).items()}
    return document


def parts_of(rule: object) -> dict[str, object]:
    """Return, by name, the values that define a score, mask, bias or normaliser: dataclass fields or attributes."""
    if is_dataclass(rule):
        return {part.name: getattr(rule, part.name) for part in fields(rule) if part.init}
    module_attributes = vars(nn.Module())  # what every module has, its parameters and buffers included
    return {name: part for name, part in vars(rule).items() if name not in module_attributes}


def from_json(document: Json, tensors: Mapping[str, Tensor]) -> Any:
    """Return a rule (score, mask, bias or normaliser), or a field of a rule, from the JSON that `to_json` wrote."""
    if isinstance(document, JSON_SCALARS):
        return document
    if "tensor" in document:
        return tensors[document["tensor"]]
    if "several" in document:
        return tuple(from_json(part, tensors) for part in document["several"])
    if "torch" in document:  # a device in the file is replaced by the CPU, on which the tensors are loaded
        return torch.device("cpu") if document["kind"] == "device" else getattr(torch, document["torch"])
    rule_class = rule_classes()[document["rule"]]
    parts = {name: from_json(part, tensors) for name, part in document["parts"].items()}
    if not issubclass(rule_class, nn.Module):
        check_fields(rule_class, parts)
        return rule_class(**parts)
    state = {name: tensors[number] for kind in ("_parameters", "_buffers") for name, number in document[kind].items()}
    names = list(signature(rule_class).parameters)
    with torch.device("meta"):  # this device allocates no memory, however large the sizes in a damaged file are
        # some arguments are parameters or buffers of the module, such as the scale of `Cosine`
        module = rule_class(**{name: parts.get(name, state.get(name)) for name in names})
    # raises an error unless `state` has the names and shapes of the module's parameters and buffers
    module.load_state_dict(state, assign=True)
    return module.requires_grad_(False).eval()


@cache
def rule_classes() -> dict[str, type]:
    """Return, by name, the classes of scores, masks, biases and normalisers that a trace file may contain."""
    for package in (masks, normalise, scores):  # all are imported, so that `with_subclasses` finds every class
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    classes = [cls for base in BASE_CLASSES for cls in with_subclasses(base)]
    return {cls.__name__: cls for cls in classes if cls.__module__.startswith("regard.")}


def with_subclasses(base: type[Any]) -> list[type[Any]]:
    return [base, *(cls for subclass in base.__subclasses__() for cls in with_subclasses(subclass))]
