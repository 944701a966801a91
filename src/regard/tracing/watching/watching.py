"""Records every attention call of a PyTorch module: `regard.watching`."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import torch
from torch import nn

from regard.attention.ask import Ask
from regard.attention.representation import type_name
from regard.errors import InputError
from regard.tracing.patterns_by_layer import missing_layer_error
from regard.tracing.watching.answered_pattern import asks_for_something
from regard.tracing.watching.recorder import Recorder
from regard.tracing.watching.running_modules import layer_of, running_modules
from regard.tracing.watching.shifted_windows import ShiftedWindows
from regard.tracing.watching.watched import Watched


@contextmanager
def watching(model: nn.Module, layers: Collection[int] | None = None, *, ask: Ask | None = None) -> Iterator[Watched]:
    """Record every attention call that a PyTorch module makes inside a `with` block; yield the record.

    The module may be from torch, diffusers, transformers or your own code. Its outputs are the same bit for bit, but
    for rounding: torch's encoder layers do not use their fast path in the block, and `ask` may choose another kernel.
    regard records calls of F.scaled_dot_product_attention, nn.MultiheadAttention, FlexAttention (unless compiled) and
    `attend`, and attention that consists of a softmax over the keys and a product of its weights with values, in the
    spellings that docs/any-model.md lists. A module in which no attention is recorded is listed in `watched.unseen` if
    its class is named like attention. If no attention is recorded in the whole model, modules that compute something
    similar, such as (a @ b) @ c or softmax(features) @ c, are listed too.

    Only calls in the thread of the block are recorded. The record refers to the queries, keys and values of all calls,
    so their memory is not freed; to record fewer calls, use `layers`. If the scores are more than a scaled, masked and
    biased matrix product, the record contains the whole matrix of scores.

    Args:
        layers: record only the calls of these layers; the layer number of a module is the first number in its path.
        ask: record these statistics of each call instead of its queries, keys, values and context. Calls of
            F.scaled_dot_product_attention are then computed by the kernel that also computes the statistics, so the
            model's outputs may change by rounding.

    Raises:
        TypeError: `model` is not a torch.nn.Module, `ask` is not an `Ask`, or `layers` is not a collection.
        InputError: a part of the model is compiled or scripted, so that its calls cannot be recorded; or the model has
            no layer with one of the numbers in `layers`.

    >>> import torch, regard
    >>> model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, batch_first=True), 3).eval()
    >>> with regard.watching(model, layers=[1]) as watched:
    ...     output = model(torch.randn(1, 5, 16))
    >>> watched.steps
    [WatchedStep('layers.1.self_attn', call=0, Pattern(batch=1, heads=2, queries=5, keys=5))]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"watching takes a torch.nn.Module; got {type_name(model)}.")
    check_layers(layers)
    check_layers_exist(layers, model)
    with recording(model, Watched(layers), ask, {}) as watched:
        yield watched


@contextmanager
def recording(
    model: nn.Module, watched: Watched, ask: Ask | None, windows: Mapping[str, ShiftedWindows]
) -> Iterator[Watched]:
    """Record the attention calls of a module as `watching` does; statistics are of whole pictures, not of windows.

    `windows` has the windows of each layer that divides pictures, by the layer's path (see `recording_windows`).
    """
    check_ask(ask)
    check_not_compiled(model)
    recorder = Recorder(watched, ask, windows)
    with running_modules(model, recorder.enter, recorder.leave) as running:
        recorder.running = running
        with recorder:
            yield watched
    recorder.list_doubtful()


def check_ask(ask: object) -> None:
    if ask is not None and not isinstance(ask, Ask):
        raise TypeError(f"ask is {type_name(ask)}; it takes an object such as Ask(top=8).")
    if ask is not None and not asks_for_something(ask):
        raise InputError("ask=… names no statistics to keep; give ask=Ask() for the default ones, or leave it out.")


def check_layers(layers: Any) -> None:
    is_list = isinstance(layers, Collection) and not isinstance(layers, str)
    if layers is not None and not (is_list and all(isinstance(layer, Integral) for layer in layers)):
        raise TypeError(f"layers={layers!r} is not a list of layer numbers; give for instance layers=[3].")


def check_layers_exist(layers: Collection[int] | None, model: nn.Module) -> None:
    existing = {layer for path, _ in model.named_modules() if (layer := layer_of(path)) is not None}
    for layer in layers or ():
        if not existing:
            raise InputError(f"layers={layers!r}, but {type(model).__name__} has no numbered module; leave layers out.")
        if layer not in existing:
            raise missing_layer_error(layer, existing, "watch")


def check_not_compiled(model: nn.Module) -> None:
    for path, module in model.named_modules():
        scripted = isinstance(module, torch.jit.ScriptModule)
        compiled = hasattr(module, "_orig_mod") or module._compiled_call_impl is not None
        if scripted or compiled:
            how = "scripted with torch.jit" if scripted else "compiled with torch.compile"
            raise InputError(
                f"{path or 'the model'} is {how}, so its attention cannot be recorded; watch the original module."
            )
