"""Records the vectors before, inside and after every layer of a model: `trace(…, keep=("hidden",))`.

The parts of a layer are found while the model runs, without a list of architectures:

    layer               the module whose path ends with the first number in it, such as "encoder.layer.3"; or a layer
                        with windows, such as "encoder.layers.0.blocks.1" of Swin; without a number in the path, any
                        module, since the only layer of a model may have no number
    output projection   the linear layer whose input is the concatenated contexts of all heads
    feed-forward        the last linear layer or mixture of experts in the layer, outside of its attention, whose output
                        has a vector of width d_model for each token
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.attention.attend import Attended
from regard.effects.contributions import OutputProjection
from regard.effects.movement import LayerStates
from regard.errors import InputError
from regard.tracing.watching.shifted_windows import ShiftedWindows, has_windows
from regard.tracing.watching.watched import Watched, WatchedStep


class StatesNotFoundError(InputError):
    """Raised when a part of a layer, such as its output projection, was not found: its vectors cannot be recorded."""


@dataclass(frozen=True, slots=True)
class LayerPaths:
    """The paths of a layer, of its output projection, and of the module whose output is the feed-forward part.

    This module is the last linear layer of the feed-forward network, or a mixture of experts.
    """

    layer: str
    projection: str
    feed_forward: str


@dataclass(slots=True)
class LayerCall:
    """One forward call of a layer.

    Its input `before` and its output `after` are None if they were not found, or if the layer is still running.
    `outputs` maps the path of each linear layer and mixture of experts in it to its output, in the order of the calls.
    Outputs that do not have the shape of `before`, or this shape with batch and tokens as one axis, are left out.
    """

    before: Tensor | None = None
    after: Tensor | None = None
    outputs: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProjectionCall:
    """The call of the output projection of an attention call, in a forward call of a Transformer layer."""

    path: str
    module: nn.Module
    output: Tensor
    layer: LayerCall


@dataclass(slots=True)
class StateRecorder:
    """Records the vectors before, inside and after each layer of a model, by forward hooks.

    Attributes:
        watched: the attention calls recorded so far, the latest last.
        running: the forward calls of the layers that are running, the innermost last.
        projections: maps each attention call, as (path of its module, number of earlier calls), to the call of its
            output projection.
        mixtures: the paths of all mixtures of experts in the model.
    """

    watched: Watched
    running: list[LayerCall] = field(default_factory=list)
    projections: dict[tuple[str, int], ProjectionCall] = field(default_factory=dict)
    mixtures: list[str] = field(default_factory=list)

    def enter_layer(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.running.append(LayerCall(before=layer_input(args, kwargs)))

    def leave_layer(self, layer: nn.Module, args: Any, output: Any) -> None:  # also called after an error
        self.running.pop().after = layer_output(output)

    def record_part(self, path: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Store the output of a linear layer in `projections` if its input is the latest attention context.

        The outputs of other linear layers and of mixtures of experts are stored if they have the shape of the input of
        the Transformer layer: they may be the feed-forward part. A linear layer may have an adapter such as LoRA.
        """
        vectors = layer_output(output)
        if vectors is None:
            return
        layer = self.running[-1] if self.running else LayerCall()
        latest = self.watched.steps[-1] if self.watched.steps else None
        if latest is not None and args and not is_mixture(module) and is_context(args[0], latest.attended):
            attention_call = (latest.path, latest.call)
            # An adapted layer first calls the linear layer in it (`base_layer`), then linear layers of the adapter, and
            # returns last: its output replaces that of `base_layer`, and `states_of` checks that the two are equal.
            if is_adapted(module) or attention_call not in self.projections:
                linear = getattr(module, "base_layer", module)
                self.projections[attention_call] = ProjectionCall(path, linear, vectors, layer)
        elif layer.before is not None and vectors.shape in (layer.before.shape, layer.before.flatten(0, -2).shape):
            layer.outputs.pop(path, None)  # so that the latest call is the last entry of the dict
            layer.outputs[path] = vectors

    def states_of(self, step: WatchedStep, windows: ShiftedWindows | None = None) -> LayerStates:
        """Return the vectors before, inside and after the layer that made an attention call.

        `windows` are those into which the layer divides pictures; None = it does not divide them.
        """
        if (step.path, step.call) not in self.projections:
            raise not_found_error(step, "no linear layer takes the contexts of its heads, side by side")
        call = self.projections[step.path, step.call]
        attention, layer = call.output, call.layer
        projection = output_projection(call.module, step.attended)
        context = rearrange(step.attended.context, "b h q d -> 1 h (b q) d")
        dtype = step.attended.pattern.call.weights_dtype
        error = (projection.to(dtype)(context.to(dtype)) - attention.flatten(0, -2).to(dtype)).abs().max()
        tolerance = max(1e-3, 2 * torch.finfo(attention.dtype).eps)  # one rounding for the product, one for the bias
        is_linear_layer_alone = error <= tolerance * (1 + attention.abs().max())  # False if there is a NaN
        if not is_linear_layer_alone:
            raise not_found_error(
                step, "its output projection is more than a linear layer (merge an adapter such as LoRA first)"
            )
        before, after = layer.before, layer.after
        feed_forward_path = self.feed_forward_path(step)
        mixtures_of_layer = [path for path in self.mixtures if layer_path(path) == layer_path(step.path)]
        if any(path != feed_forward_path for path in mixtures_of_layer):  # a later module adds to the mixture's output
            raise not_found_error(step, "its feed-forward part is more than a mixture of experts")
        feed_forward = layer.outputs.get(feed_forward_path)
        if before is None or after is None or feed_forward is None or before.shape != after.shape:
            raise not_found_error(
                step, "no feed-forward part, or no input and output of one shape, were found in its layer"
            )
        # all sequences of the batch become one sequence, [tokens d_model]
        before, attention = before.flatten(0, -2), attention.flatten(0, -2)
        feed_forward, after = feed_forward.flatten(0, -2), after.flatten(0, -2)
        if windows is not None:
            if windows.padded_grid != (windows.rows, windows.columns):
                raise not_found_error(step, "its windows have padding, which has no vectors before and after the layer")
            n_windows = step.attended.pattern.shape[0]
            attention = attention[windows.order(n_windows)]  # from window by window to row by row
        return LayerStates(before, attention, feed_forward, after, projection)

    def feed_forward_path(self, step: WatchedStep) -> str:
        """Return the path of the module whose output is the feed-forward part after an attention call; "" = none."""
        layer = self.projections[step.path, step.call].layer
        outside_attention = [path for path in layer.outputs if not path.startswith(f"{step.path}.")]
        return outside_attention[-1] if outside_attention else ""

    def paths_of(self, step: WatchedStep) -> LayerPaths:
        """Return the paths of the layer that made an attention call, and of the parts of this layer."""
        self.states_of(step)  # raises StatesNotFoundError if a part of the layer was not found
        projection_path = self.projections[step.path, step.call].path
        return LayerPaths(layer_path(step.path), projection_path, self.feed_forward_path(step))

    def states_by_kind(self, kind_of: Callable[[str], str]) -> dict[str, dict[int, LayerStates]]:
        """Return the vectors of every layer, by kind of attention and layer number; `kind_of(path)` is the kind."""
        states: dict[str, dict[int, LayerStates]] = {}
        for step in self.watched.steps:
            if step.layer is None:
                raise not_found_error(step, "it has no number")
            states.setdefault(kind_of(step.path), {})[step.layer] = self.states_of(step)
        return states


def layer_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Return the first tensor of three axes among the arguments of a layer; None if there is none."""
    arguments = (*args, *kwargs.values())
    return next((one for one in arguments if isinstance(one, Tensor) and one.ndim == 3), None)


def layer_output(output: Any) -> Tensor | None:
    """Return the tensor in the output of a layer: the output itself, or its first element; None if it is no tensor."""
    output = getattr(output, "output", output)  # regard's own layers return an object with the tensor `output`
    first = next(iter(output), None) if isinstance(output, tuple | list) else output
    return first if isinstance(first, Tensor) else None


@contextmanager
def recording_states(model: nn.Module, watched: Watched) -> Iterator[StateRecorder]:
    """Record the vectors of each layer of a model inside a `with` block.

    Call this inside a `regard.watching` block of the same model; `watched` is what `regard.watching` yields.
    """
    recorder = StateRecorder(watched)
    with ExitStack() as hooks:
        for path, module in model.named_modules():
            if is_mixture(module):
                recorder.mixtures.append(path)
            is_layer = path and (layer_path(path) == path or has_windows(module))
            if is_linear(module) or is_adapted(module) or (is_mixture(module) and not is_layer):
                hooks.callback(module.register_forward_hook(partial(recorder.record_part, path)).remove)
            elif is_layer:
                hooks.callback(module.register_forward_pre_hook(recorder.enter_layer, with_kwargs=True).remove)
                hooks.callback(module.register_forward_hook(recorder.leave_layer, always_call=True).remove)
        yield recorder


def layer_path(path: str) -> str:
    """Return the part of a module path up to its first number; the whole path if it has no number.

    >>> layer_path("encoder.layer.3.attention.self")
    'encoder.layer.3'
    """
    names = path.split(".")
    first = next((place for place, name in enumerate(names) if name.isdecimal()), len(names))
    return ".".join(names[: first + 1])


def is_linear(module: nn.Module) -> bool:
    """Return whether a module is an nn.Linear, or a Conv1D of transformers: a linear layer with W transposed."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def is_mixture(module: nn.Module) -> bool:
    """Return whether a module is a mixture of experts: it has a module `experts`, as those of transformers have."""
    return isinstance(getattr(module, "experts", None), nn.Module)


def is_adapted(module: nn.Module) -> bool:
    """Return whether a module is a linear layer with an adapter such as LoRA: peft calls the layer `base_layer`."""
    linear = getattr(module, "base_layer", None)
    return isinstance(linear, nn.Module) and is_linear(linear)


def is_context(tensor: Tensor, attended: Attended) -> bool:
    if tensor.numel() != attended.context.numel():
        return False
    context = rearrange(attended.context, "b h q d -> (b q) (h d)")
    return torch.equal(tensor.reshape(context.shape), context)


def output_projection(module: nn.Module, attended: Attended) -> OutputProjection:
    """Return the parameters of the linear layer `module`, the output projection of an attention call, split by head."""
    with on_device(module):
        weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor)
    # the weight of an nn.Linear is [outputs inputs]; that of a Conv1D is [inputs outputs], as needed here
    matrix = weight.detach().T if isinstance(module, nn.Linear) else weight.detach()
    heads = rearrange(matrix, "(h v) d -> h v d", h=attended.context.shape[1])
    return OutputProjection(heads, bias.detach() if isinstance(bias, Tensor) else None)


def on_device(module: nn.Module) -> AbstractContextManager[None]:
    """Return a `with` block in which a module that accelerate offloads has its parameters, as in its forward call."""
    if not any(parameter.is_meta for parameter in module.parameters()):
        return nullcontext()
    from accelerate.utils import align_module_device

    return align_module_device(module)


def not_found_error(step: WatchedStep, reason: str) -> StatesNotFoundError:
    return StatesNotFoundError(
        f"the vectors of the layer of {step.path} cannot be kept: {reason}; trace without keep=…."
    )
