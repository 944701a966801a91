"""Record the calls of a model's linear layers, and find the layers that computed the vectors of a head."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.tracing.watching.layer_states import is_linear

CONTEXT_ROUNDING, LINEAR_ROUNDING = 64, 16
"""The rounding errors that are accepted, as multiples of eps: attention rounds in more steps than a linear layer."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearCall:
    """One call of a linear layer: output = source W + b, with a row for each token."""

    layer: nn.Module
    source: Float[Tensor, "tokens d_source"]
    output: Float[Tensor, "tokens d_output"]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """The part of a linear layer that computed the queries, keys or values of one head: source @ parameters + bias."""

    source: Float[Tensor, "tokens d_model"]
    parameters: Float[Tensor, "d_model d_head"]
    bias: Float[Tensor, "1 d_head"] | None  # None = the layer has no bias


@contextmanager
def linear_calls(modules: Iterable[nn.Module]) -> Iterator[list[LinearCall]]:
    calls: list[LinearCall] = []

    def record(layer: nn.Module, inputs: Any, output: Any) -> None:
        if inputs and isinstance(output, Tensor):
            source, rows = inputs[0], output.reshape(-1, output.shape[-1])
            calls.append(LinearCall(layer, source.reshape(-1, source.shape[-1]), rows))

    handles = [layer.register_forward_hook(record) for layer in modules if is_linear(layer)]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def find_projection(part: Float[Tensor, "tokens d_head"], calls: Sequence[LinearCall]) -> Projection | None:
    """Return how a linear layer computed `part`, the queries, keys or values of a head; None if no layer did."""
    n_tokens, d_head = part.shape
    for call in calls:
        if not len(call.source) == len(call.output) == n_tokens:
            continue
        for start in range(0, call.output.shape[1] - d_head + 1, d_head):
            columns = slice(start, start + d_head)
            if torch.allclose(call.output[:, columns].to(part), part):
                projection = float64_projection(call, columns, part)
                if projection is not None:
                    return projection
    return None


def find_output_parameters(
    context: Float[Tensor, "tokens d_head"], head: int, calls: Sequence[LinearCall]
) -> Float[Tensor, "d_head d_model"] | None:
    """Return the rows of W_O for one head, in float64, from the linear layer whose input is the contexts of all heads.

    None if no layer's input contains `context` in the columns of this head.
    """
    n_tokens, d_head = context.shape
    of_head = slice(head * d_head, (head + 1) * d_head)  # columns of the layer's input, and rows of W_O
    for call in calls:
        if len(call.source) != n_tokens or call.source.shape[1] < of_head.stop:
            continue
        tolerance = CONTEXT_ROUNDING * torch.finfo(call.source.dtype).eps * float(context.abs().max())
        if torch.allclose(call.source[:, of_head].cpu().double(), context.cpu().double(), rtol=0, atol=tolerance):
            projection = float64_projection(call, slice(None), call.output)
            if projection is not None:
                return projection.parameters[of_head]
    return None


def float64_projection(call: LinearCall, columns: slice, output: Float[Tensor, "tokens columns"]) -> Projection | None:
    """Return the input of a linear layer, and the parameters of some columns of its output, in float64.

    None if the layer's weight is not a floating-point matrix, does not fit the width of the input, or does not give
    `output`, the numbers of these columns.
    """
    weight, bias = call.layer.weight, call.layer.bias
    if not isinstance(weight, Tensor) or not weight.is_floating_point() or weight.ndim != 2:
        return None
    # nn.Linear stores the transpose of W, Conv1D stores W
    parameters = weight.detach().T if isinstance(call.layer, nn.Linear) else weight.detach()
    if parameters.shape[0] != call.source.shape[1]:
        return None
    projection = Projection(
        source=call.source.detach().cpu().double(),
        parameters=parameters[:, columns].cpu().double(),
        bias=bias.detach()[None, columns].cpu().double() if isinstance(bias, Tensor) else None,
    )
    return projection if reproduces(projection, output, call.output.dtype) else None


def reproduces(projection: Projection, output: Float[Tensor, "tokens columns"], dtype: torch.dtype) -> bool:
    """Return whether a projection gives these columns of a layer's output, except for rounding in `dtype`."""
    bias = torch.zeros(()) if projection.bias is None else projection.bias
    # Rounding errors grow with the sum of the absolute values of all terms.
    magnitude = projection.source.abs() @ projection.parameters.abs() + bias.abs()
    error = (projection.source @ projection.parameters + bias - output.cpu().double()).abs()
    return bool((error <= LINEAR_ROUNDING * torch.finfo(dtype).eps * magnitude).all())
