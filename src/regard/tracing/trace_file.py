"""A trace in one safetensors file, to look at it again without the model.

    trace.safetensors    the tensors, by number; in the metadata, as JSON, the tokens and the parts of every step

The file has no weights: they are computed from queries and keys when somebody asks for them. The file has no code:
scores, masks and normalisers are named, and looked up among regard's own classes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import masks, normalise, scores
from regard.attention.attend import Attended
from regard.attention.call import Call
from regard.attention.grid.grid import Grid
from regard.attention.masks import Mask
from regard.attention.normalise.hard import Choice
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.pattern import Pattern
from regard.attention.scores.biases.bias import Bias
from regard.attention.scores.score import Score
from regard.errors import InputError, needs, reason
from regard.tensor_file import write_tensors
from regard.tracing.tokens import Token

FORMAT = "regard trace"
VERSION = 1

BASE_CLASSES = (Score, Mask, Normaliser, Bias, Choice)
"""A file may name the subclasses of these classes: the rules that turn queries and keys into weights."""

JSON_SCALARS = (type(None), bool, int, float, str)

Json = Any
"""A value that JSON can hold."""


@dataclass(slots=True)
class TensorTable:
    """The tensors of a file by number; a tensor that is used twice is stored once."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    originals: list[Tensor] = field(default_factory=list)
    """References to the tensors in the table, so that no new tensor reuses the memory address of one of them."""

    def add(self, tensor: Tensor) -> str:
        """Add a tensor to the table unless it is there, and return its name."""
        identity = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device
        if identity not in self.names:
            self.names[identity] = str(len(self.tensors))
            self.tensors[self.names[identity]] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            self.originals.append(tensor)
        return self.names[identity]


def write_record(path: Path, record: Mapping[str, Any]) -> Path:
    """Write the fields of a trace into a file, all or nothing.

    Raises:
        InputError: a score, mask or normaliser is not one of regard's own, so `read_record` could not rebuild it; or
            the file cannot be written.
    """
    table = TensorTable()
    steps = {
        kind: {str(layer): step_to_json(step, table) for layer, step in layers.items()}
        for kind, layers in record["attended"].items()
    }
    document = {
        "format": FORMAT,
        "version": VERSION,
        **{name: record[name] for name in ("model", "text", "target_text")},
        **{side: [asdict(token) for token in record[side]] for side in ("source", "target")},
        "attended": steps,
    }
    write_tensors(path, table.tensors, {FORMAT: json.dumps(document, ensure_ascii=False)})
    return path


def read_record(path: Path) -> dict[str, Any]:
    """Read the fields of a trace from a file that `write_record` wrote.

    Raises:
        InputError: the file holds no trace, is damaged, or was written by a newer version of regard.
    """
    document, tensors = read_document(path)
    if document.get("version") != VERSION:
        raise InputError(
            f"{path} is a trace of version {document.get('version')} and this regard reads version {VERSION}; "
            "read it with the regard that wrote it."
        )
    try:
        return {
            **{name: document[name] for name in ("model", "text", "target_text")},
            **{side: tuple(Token(**token) for token in document[side]) for side in ("source", "target")},
            "attended": {
                kind: {int(layer): step_from_json(step, tensors) for layer, step in layers.items()}
                for kind, layers in document["attended"].items()
            },
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error!r}; save the trace again.") from error


def read_document(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the JSON document in a file's metadata, and the file's tensors.

    Raises:
        InputError: the file cannot be read, or is not a trace.
    """
    needs("safetensors.torch", "huggingface")
    from safetensors import SafetensorError, safe_open

    try:
        path.open("rb").close()  # raises an OSError with the reason if the file cannot be read
        with safe_open(path, "pt") as file:
            document = json.loads((file.metadata() or {})[FORMAT])
            return document, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error
    except (KeyError, SafetensorError, json.JSONDecodeError) as error:
        raise InputError(f"{path} holds no trace, or a damaged one; give a file that trace.save wrote.") from error


def step_to_json(step: Attended, table: TensorTable) -> Json:
    """Return an attention step as JSON; its tensors go into the table."""
    pattern = step.pattern
    return {
        "backend": step.backend,
        "grid": asdict(pattern.grid),
        **{name: table.add(getattr(pattern, name)) for name in ("query", "key", "value")},
        "context": table.add(step.context),
        **{name: to_json(getattr(pattern, name), table) for name in ("score", "mask", "normalise")},
    }


def step_from_json(document: Json, tensors: Mapping[str, Tensor]) -> Attended:
    """Return the attention step that `step_to_json` described."""
    query, key, value = (tensors[document[name]] for name in ("query", "key", "value"))
    stages = (from_json(document[name], tensors) for name in ("score", "mask", "normalise"))
    pattern = Pattern(Call(query, key, value, Grid(**document["grid"]), *stages))
    return Attended(context=tensors[document["context"]], pattern=pattern, backend=document["backend"])


def to_json(value: object, table: TensorTable) -> Json:
    """Return a rule or a part of one as JSON: a class by its name, with its parts; its tensors go into the table.

    Raises:
        InputError: the value has a class that is not regard's own.
    """
    if isinstance(value, JSON_SCALARS):
        return value
    if isinstance(value, Tensor):
        return {"tensor": table.add(value)}
    if isinstance(value, tuple | list):
        return {"several": [to_json(part, table) for part in value]}
    if isinstance(value, torch.dtype | torch.device):
        return {"torch": str(value).removeprefix("torch."), "kind": type(value).__name__}
    if rule_classes().get(type(value).__name__) is not type(value) or getattr(value, "_modules", None):
        raise InputError(
            f"this trace cannot be saved: {type(value).__name__} is not one of regard's own scores, masks and "
            "normalisers, so the file could not be read back."
        )
    parts = {name: to_json(part, table) for name, part in parts_of(value).items()}
    parameters = {
        kind: {name: table.add(tensor) for name, tensor in getattr(value, kind).items()}
        for kind in ("_parameters", "_buffers")
        if isinstance(value, nn.Module)
    }
    return {"rule": type(value).__name__, "parts": parts, **parameters}


def parts_of(rule: object) -> dict[str, object]:
    """Return the fields of a dataclass, or the attributes of a module that not every module has."""
    if is_dataclass(rule):
        return {part.name: getattr(rule, part.name) for part in fields(rule) if part.init}
    module_attributes = vars(nn.Module())
    return {name: part for name, part in vars(rule).items() if name not in module_attributes}


def from_json(document: Json, tensors: Mapping[str, Tensor]) -> Any:
    """Return the rule or part of a rule that `to_json` described."""
    if isinstance(document, JSON_SCALARS):
        return document
    if "tensor" in document:
        return tensors[document["tensor"]]
    if "several" in document:
        return tuple(from_json(part, tensors) for part in document["several"])
    if "torch" in document:  # tensors come back on the CPU
        return torch.device("cpu") if document["kind"] == "device" else getattr(torch, document["torch"])
    rule_class = rule_classes()[document["rule"]]
    parts = {name: from_json(part, tensors) for name, part in document["parts"].items()}
    if not issubclass(rule_class, nn.Module):
        return rule_class(**parts)
    module = rule_class.__new__(rule_class)
    nn.Module.__init__(module)
    vars(module).update(parts)
    for name, number in document["_parameters"].items():
        module.register_parameter(name, nn.Parameter(tensors[number], requires_grad=False))
    for name, number in document["_buffers"].items():
        module.register_buffer(name, tensors[number])
    return module.eval()


@cache
def rule_classes() -> dict[str, type]:
    """Return the classes that a file may name, by name: regard's scores, masks, normalisers and their parts."""
    for package in (masks, normalise, scores):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    classes = [cls for base in BASE_CLASSES for cls in with_subclasses(base)]
    return {cls.__name__: cls for cls in classes if cls.__module__.startswith("regard.")}


def with_subclasses(base: type[Any]) -> list[type[Any]]:
    """Return a class and all its subclasses, direct and indirect."""
    return [base, *(cls for subclass in base.__subclasses__() for cls in with_subclasses(subclass))]
