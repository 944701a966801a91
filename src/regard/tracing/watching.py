"""Watch every attention step that a PyTorch module computes: `regard.watching`.

The module computes what it always computes. regard only looks at the tensors that enter and leave its attention
functions (see `interception.py`), and at which of the module's submodules is running at that time.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn

from regard.attention.ask import Ask
from regard.attention.attend import Attended
from regard.attention.representation import type_name
from regard.errors import InputError
from regard.tracing.answered_pattern import answered, asks_for_something
from regard.tracing.check import Check, check_contexts
from regard.tracing.interception import AttentionInterceptor
from regard.tracing.running_modules import ATTENTION_NAME, RunningModules, layer_of, running_modules
from regard.tracing.shared_cache import Sharing

NO_ATTENTION = "it computes no softmax of scores whose result is multiplied with values"
"""Why a module that is named like attention is listed as unseen."""


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
def watching(model: nn.Module, layers: Collection[int] | None = None, *, ask: Ask | None = None) -> Iterator[Watched]:
    """Within a `with` block, record every attention step that a PyTorch module computes; yield the record.

    Any module will do: of torch, diffusers, transformers or your own. Its outputs do not change, bit for bit, except by
    rounding where torch's own encoder layers would take their fast path, which they do not take inside the block. Seen
    are calls of F.scaled_dot_product_attention, nn.MultiheadAttention, FlexAttention (unless compiled) and `attend`,
    and attention that is written out as a matrix product, a softmax and a second matrix product. A module whose class
    is named like attention and in which none of these is seen is listed in `watched.unseen`.

    Only calls in the thread of the block are recorded. The record refers to the tensors of the model, so it needs the
    memory of the queries, keys and values of all steps; choose `layers` to keep fewer. Scores of a written-out
    attention that are more than a scaled and masked product are kept as a whole.

    Args:
        layers: keep only the steps of these layers; the layer of a module is the first number in its path.
        ask: keep these statistics of each step instead of its queries, keys, values and context. Calls of
            F.scaled_dot_product_attention are then computed by the kernel that computes the statistics in the same
            pass, so the model's outputs may change by rounding.

    Raises:
        TypeError: `model` is not a torch.nn.Module, or `ask` is not an `Ask`.
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
    if ask is not None and not isinstance(ask, Ask):
        raise TypeError(f"ask is {type_name(ask)}; it takes an object such as Ask(top=8).")
    if ask is not None and not asks_for_something(ask):
        raise InputError("ask=… names no statistics to keep; give for instance ask=Ask(), or leave it out.")
    check_not_compiled(model)
    watched = Watched(layers)
    recorder = Recorder(watched, ask)
    with (
        running_modules(model, recorder.enter, recorder.leave) as recorder.running,
        AttentionInterceptor(
            recorder.record, recorder.record_unseen, lambda: recorder.running.n_heads, recorder.asked_of_running
        ),
    ):
        yield watched


class Recorder:
    """Records attention steps in a `Watched`, each with the path of the module that is running.

    Attributes:
        ask: the statistics to keep of each step instead of its tensors; None = keep the tensors.
        n_calls: for each path, how many attention calls the module has made.
        sharing: for each path, what lets the steps of a generation share keys and values.
        n_seen: how many attention calls have been seen.
        before: for each module that is running, the numbers of attention calls, and of those seen, when it started.
    """

    def __init__(self, watched: Watched, ask: Ask | None = None) -> None:
        self.watched, self.ask = watched, ask
        self.running = RunningModules()
        self.n_calls: Counter[str] = Counter()
        self.sharing: dict[str, Sharing] = {}
        self.n_seen = 0
        self.before: list[tuple[int, int]] = []

    def record(self, attended: Attended) -> None:
        """Record an attention step of the module that is running."""
        self.n_seen += 1
        path, call = self.count_call()
        if self.keeps(path):
            if self.ask is None:
                attended = self.sharing.setdefault(path, Sharing()).shared(attended)
            else:
                attended = answered(attended, self.ask)
            self.watched.steps.append(WatchedStep(path, layer_of(path), call, attended))

    def asked_of_running(self) -> Ask | None:
        """Return the statistics to compute in the module that is running; None if none are."""
        return self.ask if self.keeps(self.running.path) else None

    def record_unseen(self, reason: str) -> None:
        """Record that the module that is running computes attention of which no pattern can be made."""
        path, _ = self.count_call()
        if self.keeps(path):
            self.watched.unseen.setdefault(path, reason)

    def count_call(self) -> tuple[str, int]:
        """Count an attention call of the module that is running; return its path and its number of earlier calls."""
        path = self.running.path
        self.n_calls[path] += 1
        return path, self.n_calls[path] - 1

    def keeps(self, path: str) -> bool:
        """Return whether the steps of the module at this path are kept."""
        return self.watched.layers is None or layer_of(path) in self.watched.layers

    def enter(self, n_running: int) -> None:
        """Take note that a module starts."""
        self.before.append((self.n_calls.total(), self.n_seen))

    def leave(self, module: nn.Module, has_output: bool) -> None:
        """Record a module as unseen if it is named like attention and ends without an attention call.

        A part of a module of this name is not unseen if attention was seen elsewhere in the module: it is a projection.
        """
        n_calls, n_seen = self.before.pop()
        if not has_output or not ATTENTION_NAME.search(type(module).__name__):
            return
        if n_calls == self.n_calls.total():
            self.record_unseen(NO_ATTENTION)
        elif n_seen < self.n_seen:
            unseen = self.watched.unseen
            inside = [path for path in unseen if path.startswith(f"{self.running.path}.")]
            for path in inside:
                if unseen[path] == NO_ATTENTION:
                    del unseen[path]


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
