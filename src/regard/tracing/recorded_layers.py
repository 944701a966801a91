"""The attention calls that a model made in one run, by kind of attention and layer number."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from regard.attention.call import Call
from regard.errors import InputError
from regard.tracing.patterns_by_layer import missing_layer_error
from regard.tracing.watching.answered_pattern import CallWithoutTensors
from regard.tracing.watching.attention_kind import KindOfPath
from regard.tracing.watching.joined_calls import join_windows
from regard.tracing.watching.watched import Watched, WatchedStep
from regard.tracing.watching.watching import check_layers

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def steps_by_kind(model: "PreTrainedModel", watched: Watched) -> dict[str, dict[int, WatchedStep]]:
    """Return the attention calls of a model by kind (encoder, decoder, cross) and layer."""
    if watched.unseen:
        path, reason = next(iter(watched.unseen.items()))
        raise InputError(
            f"{type(model).__name__} computes attention in {path} that cannot be recorded: {reason}; "
            "regard.watching(model) records the attention of its other modules."
        )
    kind_of = KindOfPath.of(model)  # `only_kind`: the kind of all attention, if the model has one kind
    kinds = ["encoder", "decoder", "cross"] if kind_of.only_kind is None else [kind_of.only_kind]
    steps = {kind: [step for step in watched.steps if kind_of(step.path) == kind] for kind in kinds}
    if kind_of.has_vision:  # such a model need not have all kinds
        kinds = [kind for kind in kinds if steps[kind]]
    if missing := [kind for kind in kinds if not steps[kind]]:
        raise InputError(
            f"{type(model).__name__} computed no {' and no '.join(missing)} attention, so there is nothing to record."
        )
    if kind_of.has_vision:  # a vision encoder may attend inside windows of a picture, one call for each
        steps["encoder"] = join_windows(steps["encoder"])
    return {kind: steps_by_layer(in_numbered_layers(steps[kind])) for kind in kinds}


def in_numbered_layers(steps: list[WatchedStep]) -> list[WatchedStep]:
    """Return the attention calls in numbered layers; if no call is in a numbered layer, return all calls.

    Warn if calls are left out, such as that of a pooling head.
    """
    inside = [step for step in steps if step.layer is not None]
    if not inside or len(inside) == len(steps):
        return steps
    outside = next(step.path for step in steps if step.layer is None)
    warnings.warn(
        f"the attention of {outside} is outside the layers, so it is not in the trace; regard.watching(model) records "
        "it.",
        stacklevel=2,
    )
    return inside


def steps_by_layer(steps: Sequence[WatchedStep]) -> dict[int, WatchedStep]:
    """Return attention calls by layer number: the first number in the path of the module.

    If a path has no number, or the numbers do not increase, as when layers share a module, calls are numbered from 0.
    """
    numbers = [-1 if step.layer is None else step.layer for step in steps]
    if -1 in numbers or numbers != sorted(set(numbers)):
        numbers = list(range(len(steps)))
    return dict(zip(numbers, steps, strict=True))


def select_layers(
    steps: Mapping[str, Mapping[int, WatchedStep]], layers: Collection[int] | None
) -> dict[str, dict[int, WatchedStep]]:
    """Return the attention calls of some layers, by kind and layer number; `layers` None = all of them."""
    existing = sorted({layer for by_layer in steps.values() for layer in by_layer})
    check_layers(layers)
    wanted = existing if layers is None else layers
    if not wanted:
        raise InputError(f"layers is empty; name layers from {min(existing)} to {max(existing)}, or give layers=None.")
    for layer in wanted:
        if layer not in existing:
            raise missing_layer_error(layer, existing, "trace")
    return {kind: {n: step for n, step in by_layer.items() if n in wanted} for kind, by_layer in steps.items()}


def check_no_nan(name: str, steps: Mapping[str, Mapping[int, WatchedStep]]) -> None:
    for kind, by_layer in steps.items():
        for layer, step in by_layer.items():
            for part in ("query", "key", "value"):
                if has_nan(step.attended.pattern.call, part):
                    raise InputError(
                        f"{name} gives NaN in the {part} of {kind} layer {layer}; its parameters are damaged, or too "
                        "small a number type overflows: load it in float32."
                    )


def has_nan(call: Call, part: str) -> bool:
    """Return whether the query, key or value (`part`) of a call has NaN.

    A call whose statistics alone are stored has no tensors any more; it knows from the recording which of them had NaN.
    """
    return call.nan_in == part if isinstance(call, CallWithoutTensors) else bool(getattr(call, part).isnan().any())
