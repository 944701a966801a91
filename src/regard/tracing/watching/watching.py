"""Records every attention call of a PyTorch module: `regard.watching`.

The module computes the same as without recording. regard reads the input and output tensors of the attention functions
(see `interception.py`), and keeps track of which submodule is running.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from regard.attention.ask import Ask
from regard.attention.attend import Attended
from regard.attention.representation import type_name
from regard.errors import InputError
from regard.tracing.watching.answered_pattern import answered, asks_for_something
from regard.tracing.watching.check import Check, check_contexts
from regard.tracing.watching.interception import AttentionInterceptor
from regard.tracing.watching.running_modules import (
    ATTENTION_NAME,
    HeadCounts,
    RunningModules,
    layer_of,
    running_modules,
)
from regard.tracing.watching.shared_cache import Sharing

NO_ATTENTION = "it computes no softmax of scores whose result is multiplied with values"
"""The reason in `Watched.unseen` for a module that is named like attention but makes no attention call."""


@dataclass(frozen=True, slots=True, eq=False)
class WatchedStep:
    """One recorded attention call (also called attention step) of a watched model.

    Attributes:
        path: the path in the model of the module that made the call, such as "blocks.3.attn"; "" for the model itself.
        layer: the first number in the path, here 3; None if the path has no number.
        call: how many attention calls this module had made before, inside the same `with` block.
        attended: the context that the module computed, and the pattern of the attention weights.
    """

    path: str
    layer: int | None
    call: int
    attended: Attended

    def __repr__(self) -> str:
        return f"WatchedStep({self.path!r}, call={self.call}, {self.attended.pattern!r})"


@dataclass(slots=True, eq=False, repr=False)
class Watched:
    """The attention calls that a model made inside a `with regard.watching(model)` block.

    Attributes:
        layers: the numbers of the layers whose calls are recorded; None = all layers.
        unseen: by the path of each module whose attention could not be recorded, the reason.
        steps: the recorded attention calls, in order.
    """

    layers: Collection[int] | None = None
    unseen: dict[str, str] = field(default_factory=dict)
    steps: list[WatchedStep] = field(default_factory=list)

    def check(self) -> Check:
        """Recompute every context as weights @ value, and compare it with the context that the model computed.

        The contexts differ if the model applies dropout to the weights: a pattern has the weights before dropout.
        """
        return check_contexts([step.attended for step in self.steps])

    def __repr__(self) -> str:
        modules = {step.path for step in self.steps}
        return f"Watched(steps={len(self.steps)}, modules={len(modules)}, unseen={list(self.unseen)})"


@contextmanager
def watching(model: nn.Module, layers: Collection[int] | None = None, *, ask: Ask | None = None) -> Iterator[Watched]:
    """Record every attention call that a PyTorch module makes inside a `with` block; yield the record.

    The module may be from torch, diffusers, transformers or your own code. Its outputs are the same bit for bit, with
    one exception: torch's encoder layers do not use their fast path inside the block, which may change the rounding.
    regard records calls of F.scaled_dot_product_attention, nn.MultiheadAttention, FlexAttention (unless compiled) and
    `attend`, and attention that consists of a matrix product, a softmax and a second matrix product. A module whose
    class is named like attention, but in which no attention is recorded, is listed in `watched.unseen`.

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
        InputError: a part of the model is compiled or scripted, so that its calls cannot be recorded.

    >>> import torch, regard
    >>> model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, batch_first=True), 3).eval()
    >>> with regard.watching(model, layers=[1]) as watched:
    ...     output = model(torch.randn(1, 5, 16))
    >>> watched.steps
    [WatchedStep('layers.1.self_attn', call=0, Pattern(batch=1, heads=2, queries=5, keys=5))]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"watching takes a torch.nn.Module; got {type_name(model)}.")
    if ask is not None and not isinstance(ask, Ask):
        raise TypeError(f"ask is {type_name(ask)}; it takes an object such as Ask(top=8).")
    if ask is not None and not asks_for_something(ask):
        raise InputError("ask=… names no statistics to keep; give for instance ask=Ask(), or leave it out.")
    check_layers(layers)
    check_not_compiled(model)
    watched = Watched(layers)
    recorder = Recorder(watched, ask)
    with running_modules(model, recorder.enter, recorder.leave) as recorder.running, recorder:
        yield watched


def check_layers(layers: object) -> None:
    if layers is not None and (isinstance(layers, str) or not isinstance(layers, Collection)):
        raise TypeError(f"layers={layers!r} is not a list of layer numbers; give for instance layers=[3].")


class Recorder(AttentionInterceptor):
    """Adds attention calls to a `Watched`, each with the path of the module that is running.

    Attributes:
        ask: the statistics to record of each call instead of its tensors; None = record the tensors.
        n_calls: for each path, how many attention calls the module has made.
        sharing: for each path, the `Sharing` that stores keys and values once for all steps of a generated text.
        n_recorded: the number of attention calls of which a pattern could be made, in all layers.
        at_start: for each running module, the innermost last: n_calls.total() and n_recorded when it started.
    """

    def __init__(self, watched: Watched, ask: Ask | None = None) -> None:
        super().__init__()
        self.watched, self.ask = watched, ask
        self.running = RunningModules()
        self.n_calls: Counter[str] = Counter()
        self.sharing: dict[str, Sharing] = {}
        self.n_recorded = 0
        self.at_start: list[tuple[int, int]] = []

    def record(self, attended: Attended) -> None:
        self.n_recorded += 1
        path, call = self.count_call()
        if self.keeps(path):
            if self.ask is None:
                attended = self.sharing.setdefault(path, Sharing()).shared(attended)
            else:
                attended = answered(attended, self.ask)
            self.watched.steps.append(WatchedStep(path, layer_of(path), call, attended))

    def before_change(self, tensor: Tensor) -> None:
        """Copy the context of the latest recorded call if it shares memory with `tensor`, which is about to change."""
        if not self.watched.steps:
            return
        latest = self.watched.steps[-1]
        context = latest.attended.context
        if not context.is_meta and context.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
            self.watched.steps[-1] = replace(latest, attended=replace(latest.attended, context=context.clone()))

    def head_counts(self) -> HeadCounts:
        return self.running.heads

    def requested_statistics(self) -> Ask | None:
        return self.ask if self.keeps(self.running.path) else None

    def record_unseen(self, reason: str) -> None:
        """Record that the module that is running computes attention for which no pattern can be made."""
        path, _ = self.count_call()
        if self.keeps(path):
            self.watched.unseen.setdefault(path, reason)

    def count_call(self) -> tuple[str, int]:
        """Count an attention call of the running module; return its path and the number of its earlier calls."""
        path = self.running.path
        self.n_calls[path] += 1
        return path, self.n_calls[path] - 1

    def keeps(self, path: str) -> bool:
        return self.watched.layers is None or layer_of(path) in self.watched.layers

    def enter(self, n_running: int) -> None:
        """When a module starts, store how many attention calls have been made, and how many recorded, so far.

        Args:
            n_running: how many watched modules are running, this one included.
        """
        self.at_start.append((self.n_calls.total(), self.n_recorded))

    def leave(self, module: nn.Module, has_output: bool) -> None:
        """When a module ends, list it as unseen if its class is named like attention and it called no attention.

        A module without output, which raised an error, is not listed. If attention was recorded in a module that is
        named like attention, its submodules are removed from the list: one such as an output projection may also be
        named like attention, and computes none.
        """
        n_calls, n_recorded = self.at_start.pop()
        if not has_output or not ATTENTION_NAME.search(type(module).__name__):
            return
        if n_calls == self.n_calls.total():
            self.record_unseen(NO_ATTENTION)
        elif n_recorded < self.n_recorded:
            unseen = self.watched.unseen
            inside = [path for path in unseen if path.startswith(f"{self.running.path}.")]
            for path in inside:
                if unseen[path] == NO_ATTENTION:
                    del unseen[path]


def check_not_compiled(model: nn.Module) -> None:
    for path, module in model.named_modules():
        scripted = isinstance(module, torch.jit.ScriptModule)
        compiled = hasattr(module, "_orig_mod") or module._compiled_call_impl is not None
        if scripted or compiled:
            how = "scripted with torch.jit" if scripted else "compiled with torch.compile"
            raise InputError(
                f"{path or 'the model'} is {how}, so its attention cannot be recorded; watch the original module."
            )
