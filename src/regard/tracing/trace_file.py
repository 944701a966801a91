"""A trace in a file: what every attention step was given and gave, so that it can be looked at without its model.

    trace.safetensors    tensors by number; in the file's metadata, as JSON, what each of them is

Weights are not in it: as in the trace that was saved, they are computed from queries and keys when they are looked at.
Nothing in the file is code: scores, masks and normalisers are looked up by name among regard's own.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.attention import masks, normalise, scores
from regard.attention.attend import Attended
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
from regard.tracing.trace import Trace

FORMAT = "regard trace"
VERSION = 1

ROOTS = (Score, Mask, Normaliser, Bias, Choice)
"""The kinds of rules that weights follow from."""

PLAIN = (type(None), bool, int, float, str)
"""What JSON holds as it is."""

Described = Any
"""What JSON can hold."""

Rule = TypeVar("Rule")


@dataclass(slots=True)
class Tensors:
    """Tensors by number, each once however often it is used."""

    kept: dict[str, Tensor] = field(default_factory=dict)
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    seen: list[Tensor] = field(default_factory=list)
    """What has been kept, as it was, so that no other tensor takes its place in memory."""

    def name(self, tensor: Tensor) -> str:
        """The name that a tensor has in the file."""
        place = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device
        if place not in self.names:
            self.names[place] = str(len(self.kept))
            self.kept[self.names[place]] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            self.seen.append(tensor)
        return self.names[place]


def write_trace(trace: Trace, path: Path) -> Path:
    """Write a trace into a file, whole.

    Raises:
        InputError: a score, mask or normaliser is not regard's own, so nobody could read it back; or the file cannot be
            written.
    """
    tensors = Tensors()
    steps = {
        kind: {str(layer): described_step(step, tensors) for layer, step in layers.items()}
        for kind, layers in trace.attended.items()
    }
    about = {
        "format": FORMAT,
        "version": VERSION,
        "model": trace.model,
        "text": trace.text,
        "target_text": trace.target_text,
        "source": [asdict(token) for token in trace.source],
        "target": [asdict(token) for token in trace.target],
        "attended": steps,
    }
    write_tensors(path, tensors.kept, {FORMAT: json.dumps(about, ensure_ascii=False)})
    return path


def read_trace(path: Path) -> Trace:
    """Read a trace from the file that `write_trace` wrote.

    Raises:
        InputError: there is no trace in the file, it is damaged, or a newer regard wrote it.
    """
    about, tensors = read_file(path)
    if about.get("version") != VERSION:
        raise InputError(
            f"{path} is a trace of version {about.get('version')} and this regard reads version {VERSION}; "
            "read it with the regard that wrote it."
        )
    try:
        return Trace(
            model=about["model"],
            text=about["text"],
            target_text=about["target_text"],
            source=tuple(Token(**token) for token in about["source"]),
            target=tuple(Token(**token) for token in about["target"]),
            attended={
                kind: {int(layer): made_step(step, tensors) for layer, step in layers.items()}
                for kind, layers in about["attended"].items()
            },
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error!r}; save the trace again.") from error


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says of its tensors, and the tensors.

    Raises:
        InputError: it cannot be read, or is not a trace.
    """
    needs("safetensors.torch", "huggingface")
    from safetensors import SafetensorError, safe_open

    try:
        path.open("rb").close()  # which says in words why it cannot be
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {})[FORMAT])
            return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error
    except (KeyError, SafetensorError, json.JSONDecodeError) as error:
        raise InputError(f"{path} holds no trace, or a damaged one; give a file that trace.save wrote.") from error


def described_step(step: Attended, tensors: Tensors) -> Described:
    """One attention step."""
    pattern = step.pattern
    return {
        "backend": step.backend,
        "grid": asdict(pattern.grid),
        **{name: tensors.name(getattr(pattern, name)) for name in ("query", "key", "value")},
        "context": tensors.name(step.context),
        **{name: described(getattr(pattern, name), tensors) for name in ("score", "mask", "normalise")},
    }


def made_step(about: Described, tensors: Mapping[str, Tensor]) -> Attended:
    """One attention step, from what is said of it."""
    query, key, value = (tensors[about[name]] for name in ("query", "key", "value"))
    stages = (made(about[name], tensors) for name in ("score", "mask", "normalise"))
    pattern = Pattern(query, key, value, Grid(**about["grid"]), *stages)
    return Attended(context=tensors[about["context"]], pattern=pattern, backend=about["backend"])


def described(thing: object, tensors: Tensors) -> Described:
    """A rule, or what it is made of, by name.

    Raises:
        InputError: it is not regard's own.
    """
    if isinstance(thing, PLAIN):
        return thing
    if isinstance(thing, Tensor):
        return {"tensor": tensors.name(thing)}
    if isinstance(thing, tuple | list):
        return {"several": [described(one, tensors) for one in thing]}
    if isinstance(thing, torch.dtype | torch.device):
        return {"torch": str(thing).removeprefix("torch."), "kind": type(thing).__name__}
    if rules().get(type(thing).__name__) is not type(thing) or getattr(thing, "_modules", None):
        raise InputError(
            f"this trace cannot be saved: {type(thing).__name__} is not one of regard's own scores, masks and "
            "normalisers, so nobody could read it back."
        )
    parts = {name: described(part, tensors) for name, part in parts_of(thing).items()}
    numbers = {
        kind: {name: tensors.name(tensor) for name, tensor in getattr(thing, kind).items()}
        for kind in ("_parameters", "_buffers")
        if isinstance(thing, nn.Module)
    }
    return {"rule": type(thing).__name__, "parts": parts, **numbers}


def parts_of(rule: object) -> dict[str, object]:
    """What a rule is made of: the fields of a dataclass, or a module's own attributes."""
    if is_dataclass(rule):
        return {part.name: getattr(rule, part.name) for part in fields(rule) if part.init}
    everybodys = vars(nn.Module())
    return {name: part for name, part in vars(rule).items() if name not in everybodys}


def made(about: Described, tensors: Mapping[str, Tensor]) -> Any:
    """A rule, or what it is made of, from what is said of it."""
    if isinstance(about, PLAIN):
        return about
    if "tensor" in about:
        return tensors[about["tensor"]]
    if "several" in about:
        return tuple(made(one, tensors) for one in about["several"])
    if "torch" in about:  # tensors come back on the CPU
        return torch.device("cpu") if about["kind"] == "device" else getattr(torch, about["torch"])
    kind = rules()[about["rule"]]
    parts = {name: made(part, tensors) for name, part in about["parts"].items()}
    if not issubclass(kind, nn.Module):
        return kind(**parts)
    module = kind.__new__(kind)
    nn.Module.__init__(module)
    vars(module).update(parts)
    for name, number in about["_parameters"].items():
        module.register_parameter(name, nn.Parameter(tensors[number], requires_grad=False))
    for name, number in about["_buffers"].items():
        module.register_buffer(name, tensors[number])
    return module.eval()


@cache
def rules() -> dict[str, type]:
    """Every score, mask, normaliser and what they are made of, of regard's own, by name."""
    for package in (masks, normalise, scores):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    return {kind.__name__: kind for root in ROOTS for kind in kinds_of(root) if kind.__module__.startswith("regard.")}


def kinds_of(root: type[Rule]) -> list[type[Rule]]:
    """A class and all that are of its kind."""
    return [root, *(kind for sub in root.__subclasses__() for kind in kinds_of(sub))]
