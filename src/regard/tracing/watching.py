"""Watch every attention step that a PyTorch module computes: `regard.watching`.

The module computes what it always computes. regard only looks at the tensors that enter and leave its attention
functions (see `interception.py`), and at which of the module's submodules is running at that time.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from regard.attention.attend import Attended
from regard.attention.representation import type_name
from regard.errors import InputError
from regard.tracing.check import Check, check_contexts
from regard.tracing.interception import AttentionInterceptor

ATTENTION_NAME = re.compile("attention|attn", re.IGNORECASE)
"""Matches the class names of modules that are expected to compute attention."""

HEAD_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "n_head", "heads", "nhead", "n_attention_heads")
"""The attributes in which modules store their number of heads."""


@dataclass(frozen=True, slots=True, eq=False)
class WatchedStep:
    """One attention step of a watched model.

    Attributes:
        path: where the module that computed the step is in the model, such as "blocks.3.attn"; "" for the model itself.
        layer: the first number in the path, here 3; None if the path has no number.
        call: how many steps this module had computed before, inside the same block.
        attended: the context that the module computed, and the pattern of its weights.
    """

    path: str
    layer: int | None
    call: int
    attended: Attended

    def __repr__(self) -> str:
        return f"WatchedStep({self.path!r}, call={self.call}, {self.attended.pattern!r})"


@dataclass(slots=True, eq=False, repr=False)
class Watched:
    """The attention steps that a model computed inside a `watching` block.

    Attributes:
        layers: the layers whose steps are kept; None = all.
        unseen: the paths of the modules whose attention regard could not see, each with the reason.
        steps: the attention steps, in the order of the calls.
    """

    layers: Collection[int] | None = None
    unseen: dict[str, str] = field(default_factory=dict)
    steps: list[WatchedStep] = field(default_factory=list)

    def check(self) -> Check:
        """Recompute every context as weights @ value and compare it with the one that the model computed.

        The two differ where dropout is active: the weights are those before dropout.
        """
        return check_contexts([step.attended for step in self.steps])

    def __repr__(self) -> str:
        modules = {step.path for step in self.steps}
        return f"Watched(steps={len(self.steps)}, modules={len(modules)}, unseen={list(self.unseen)})"


@contextmanager
def watching(model: nn.Module, layers: Collection[int] | None = None) -> Iterator[Watched]:
    """Within a `with` block, record every attention step that a PyTorch module computes; yield the record.

    Any module will do: of torch, timm, diffusers, transformers or your own. Its outputs do not change. Seen are calls
    of F.scaled_dot_product_attention, nn.MultiheadAttention, FlexAttention (unless compiled) and `attend`, and
    attention that is written out as a matrix product, a softmax and a second matrix product. A module whose class is
    named like attention and in which none of these is seen is listed in `watched.unseen`.

    Only calls in the thread of the block are recorded. The fast path of torch's own encoder layers is not taken inside
    the block. The record refers to the tensors of the model, so it needs the memory of the queries, keys and values of
    all steps; choose `layers` to keep fewer. Scores of a written-out attention that are more than a scaled and masked
    product are kept as a whole.

    Args:
        layers: keep only the steps of these layers; the layer of a module is the first number in its path.

    Raises:
        TypeError: `model` is not a torch.nn.Module.
        InputError: a part of the model is compiled or scripted, so that its calls cannot be seen.

    >>> import torch, regard
    >>> model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, batch_first=True), 3).eval()
    >>> with regard.watching(model, layers=[1]) as watched:
    ...     output = model(torch.randn(1, 5, 16))
    >>> watched.steps
    [WatchedStep('layers.1.self_attn', call=0, Pattern(batch=1, heads=2, queries=5, keys=5))]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"watching takes a torch.nn.Module; got {type_name(model)}.")
    check_not_compiled(model)
    watched = Watched(layers)
    recorder = Recorder(watched)
    with ExitStack() as stack:
        for path, module in model.named_modules():
            for hook in recorder.hooks(path, module):
                stack.callback(hook.remove)
        stack.enter_context(AttentionInterceptor(recorder.record, recorder.record_unseen, recorder.n_heads))
        yield watched


class Recorder:
    """Records attention steps in a `Watched`, each with the path of the module that is running.

    Attributes:
        running: the modules that are running, the innermost last: path and module.
        n_calls: for each path, how many attention calls the module has made.
    """

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.running: list[tuple[str, nn.Module | None]] = [("", None)]
        self.n_calls: Counter[str] = Counter()

    def record(self, attended: Attended) -> None:
        """Record an attention step of the module that is running."""
        path, call = self.count_call()
        if self.keeps(path):
            self.watched.steps.append(WatchedStep(path, layer_of(path), call, attended))

    def record_unseen(self, reason: str) -> None:
        """Record that the module that is running computes attention of which no pattern can be made."""
        path, _ = self.count_call()
        if self.keeps(path):
            self.watched.unseen.setdefault(path, reason)

    def count_call(self) -> tuple[str, int]:
        """Count an attention call of the module that is running; return its path and its number of earlier calls."""
        path = self.running[-1][0]
        self.n_calls[path] += 1
        return path, self.n_calls[path] - 1

    def keeps(self, path: str) -> bool:
        """Return whether the steps of the module at this path are kept."""
        return self.watched.layers is None or layer_of(path) in self.watched.layers

    def n_heads(self) -> int | None:
        """Return the number of heads of the module that is running; None if it has no attribute for it."""
        module = self.running[-1][1]
        numbers = (getattr(module, name, None) for name in HEAD_COUNTS)
        return next((number for number in numbers if isinstance(number, int) and number > 0), None)

    def hooks(self, path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        """Add the hooks to a module that keep `running` up to date, and yield them."""
        calls_before: list[int] = []

        def enter(module: nn.Module, args: Any) -> None:
            self.running.append((path, module))
            calls_before.append(self.n_calls.total())

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            saw_none = calls_before.pop() == self.n_calls.total()
            if saw_none and output is not None and ATTENTION_NAME.search(type(module).__name__):
                self.record_unseen("it computes no softmax of scores whose result is multiplied with values")
            self.running.pop()

        yield module.register_forward_pre_hook(enter)
        yield module.register_forward_hook(leave, always_call=True)


def layer_of(path: str) -> int | None:
    """Return the first number in the path of a module; None if it has none.

    >>> layer_of("encoder.layer.11.attention.self"), layer_of("pool")
    (11, None)
    """
    return next((int(name) for name in path.split(".") if name.isdecimal()), None)


def check_not_compiled(model: nn.Module) -> None:
    """Raise InputError if a part of the model is compiled or scripted."""
    for path, module in model.named_modules():
        scripted = isinstance(module, torch.jit.ScriptModule)
        compiled = hasattr(module, "_orig_mod") or module._compiled_call_impl is not None
        if scripted or compiled:
            how = "scripted with torch.jit" if scripted else "compiled with torch.compile"
            raise InputError(
                f"{path or 'the model'} is {how}, so its attention cannot be seen; watch the module that it was made "
                "of."
            )
