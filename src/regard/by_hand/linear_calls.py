"""Calls of a model's linear layers, and the columns of a layer that give the queries, keys or values of one head."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.tracing.huggingface import RECORDING

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True, eq=False)
class LinearCall:
    """One call of a linear layer: output = source W + b."""

    layer: nn.Module
    source: Tensor
    output: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """The columns of a linear layer that give a head's queries, keys or values: source @ parameters + bias."""

    source: Float[Tensor, "tokens d_model"]
    parameters: Float[Tensor, "d_model d_head"]
    bias: Float[Tensor, "1 d_head"] | None


@contextmanager
def linear_calls_by_step(model: "PreTrainedModel") -> Iterator[dict[int, list[LinearCall]]]:
    """Record the calls of linear layers in the module of each attention step, by the id of the `Attended`."""
    from transformers.pytorch_utils import Conv1D

    calls: dict[int, list[LinearCall]] = {}
    handles = []
    for module in model.modules():
        if layers := [child for child in module.children() if isinstance(child, nn.Linear | Conv1D)]:
            handles += add_hooks(module, layers, calls)
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def linear_calls(modules: Iterable[nn.Module]) -> Iterator[list[LinearCall]]:
    """Record the calls of every linear layer among some modules."""
    calls: list[LinearCall] = []

    def record(layer: nn.Module, inputs: Any, output: Any) -> None:
        calls.append(LinearCall(layer, inputs[0], output))

    handles = [layer.register_forward_hook(record) for layer in modules if isinstance(layer, nn.Linear)]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def add_hooks(module: nn.Module, layers: Sequence[nn.Module], calls: dict[int, list[LinearCall]]) -> list[Any]:
    """Hook a module so that its layers' calls are recorded for each attention step inside; inner modules come first."""
    open_calls: list[tuple[int, list[LinearCall]]] = []

    def begin(module: nn.Module, inputs: Any) -> None:
        open_calls.append((len(RECORDING.get() or ()), []))

    def record(layer: nn.Module, inputs: Any, output: Any) -> None:
        if open_calls and inputs and isinstance(output, Tensor):
            open_calls[-1][1].append(LinearCall(layer, inputs[0], output))

    def end(module: nn.Module, inputs: Any, output: Any) -> None:
        n_steps_before, layer_calls = open_calls.pop()
        for step in (RECORDING.get() or [])[n_steps_before:]:
            calls.setdefault(id(step.attended), layer_calls)

    return [
        module.register_forward_pre_hook(begin),
        *(layer.register_forward_hook(record) for layer in layers),
        module.register_forward_hook(end),
    ]


def find_projection(part: Float[Tensor, "tokens d_head"], calls: Sequence[LinearCall]) -> Projection | None:
    """Return the columns of a recorded linear layer whose output is this part; None if there are none."""
    n_tokens, d_head = part.shape
    for candidate in calls:
        source = candidate.source.reshape(-1, candidate.source.shape[-1])
        output = candidate.output.reshape(-1, candidate.output.shape[-1])
        if not len(source) == len(output) == n_tokens:
            continue
        for start in range(0, output.shape[1] - d_head + 1, d_head):
            columns = slice(start, start + d_head)
            if torch.allclose(output[:, columns].to(part), part):
                found = projection_of(candidate.layer, source, columns)
                if found is not None and reproduces(found, part, candidate.output.dtype):
                    return found
    return None


def projection_of(layer: nn.Module, source: Tensor, columns: slice) -> Projection | None:
    """Return columns of a linear layer in float64; None unless its parameters are a matrix that fits the source."""
    weight, bias = layer.weight, layer.bias
    if not isinstance(weight, Tensor) or not weight.is_floating_point() or weight.ndim != 2:
        return None
    parameters = weight.detach().T if isinstance(layer, nn.Linear) else weight.detach()  # Conv1D stores W as it is
    if parameters.shape[0] != source.shape[1]:
        return None
    return Projection(
        source=source.detach().cpu().double(),
        parameters=parameters[:, columns].cpu().double(),
        bias=bias.detach()[None, columns].cpu().double() if isinstance(bias, Tensor) else None,
    )


def reproduces(found: Projection, part: Float[Tensor, "tokens d_head"], dtype: torch.dtype) -> bool:
    """Return whether source @ parameters + bias is this part, up to the rounding errors of `dtype`."""
    bias = torch.zeros(()) if found.bias is None else found.bias
    largest = found.source.abs() @ found.parameters.abs() + bias.abs()
    error = (found.source @ found.parameters + bias - part.cpu().double()).abs()
    return bool((error <= 16 * torch.finfo(dtype).eps * largest).all())
