"""Records the attention calls that PyTorch code makes, each with the module that made it.

PyTorch passes every call of a torch function to the active `TorchFunctionMode`. The mode in this file runs each call,
and then records the calls that compute attention:

    F.scaled_dot_product_attention, nn.MultiheadAttention, FlexAttention     from the arguments of the call
    `regard.attend`                                                          from the result of the call
    softmax over keys → product with values                                  from these operations

If statistics are requested, `attend` computes context and statistics together, in place of the intercepted call.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention.ask import Ask
from regard.attention.attend import Attended, attend
from regard.attention.backends.choose import usable_engine
from regard.attention.call import Call
from regard.attention.grid.grid import Grid
from regard.attention.masks import Keep
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.effects.interchange import interchanged
from regard.errors import InputError
from regard.tracing.watching.answered_pattern import answered
from regard.tracing.watching.flex_call import flex_call
from regard.tracing.watching.four_axes import four_axes, from_four_axes, heads_and_batch
from regard.tracing.watching.matrix_chains import Chain, MatrixChains
from regard.tracing.watching.multi_head_forward import multi_head_attention_forward
from regard.tracing.watching.origins import WeightedSum
from regard.tracing.watching.running_modules import ATTENTION_NAME, RunningModules, layer_of
from regard.tracing.watching.sdpa_call import CHANGED, output_shape, sdpa_call
from regard.tracing.watching.shared_cache import Sharing
from regard.tracing.watching.shifted_windows import ShiftedWindows, windows_around
from regard.tracing.watching.watched import Watched, WatchedStep
from regard.tracing.watching.written_out import WrittenOut

NO_ATTENTION = "it computes no softmax of scores whose result is multiplied with values"
"""The reason in `Watched.unseen` for a module that is named like attention, or computes a chain of matrix products."""

WEIGHTS_OF_PARAMETERS = (
    "its softmax is over features that a layer with parameters computes, as in a mixture of experts; give its class a "
    "name with Attention if it is attention"
)
"""The reason in `Watched.unseen` for a gate, a classifier, or attention whose scores do not depend on the keys."""

SEVERAL_AXES = (
    "its weights have several axes without queries, such as batch, heads and windows; give the module its number of "
    "heads as n_heads"
)
"""The reason in `Watched.unseen` for a module whose weights have no axis of queries."""

EVERY_LAYER = " It must fit every layer: leave groups out for a model such as Swin, whose layers have different keys."

MODEL_ITSELF = "(the model itself)"

PROPERTY_READS = frozenset([*(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device")), Tensor.size])
"""Functions that read a property of a tensor, and compute nothing: a fifth of the calls of a Llama."""


class Recorder(TorchFunctionMode):
    """Adds the attention calls that PyTorch code makes in this thread to a `Watched`, inside a `with` block.

    Attributes:
        ask: the statistics to record of each call instead of its tensors; None = record the tensors.
        windows: the windows of each layer that divides pictures into windows (as in Swin), by the layer's path.
        n_calls: for each path, how many attention calls the module has made, with or without a pattern.
        doubtful: why attention was not recorded, by the path of each module that may have computed attention.
        unrecognised: the paths in `doubtful` of modules that computed a product, a softmax and a second product.
        n_recorded: the number of those attention calls, in all layers, of which a pattern could be made.
        counts_at_start: (all calls so far, `n_recorded`) when each running module started, the innermost module last.
    """

    def __init__(self, watched: Watched, ask: Ask | None, windows: Mapping[str, ShiftedWindows]) -> None:
        super().__init__()
        self.watched, self.ask, self.windows = watched, ask, windows
        self.running, self.written_out = RunningModules(), WrittenOut()
        self.matrix_chains, self.doubtful = MatrixChains(), dict[str, str]()
        self.unrecognised: set[str] = set()
        self.n_calls: Counter[str] = Counter()
        self.sharing: dict[str, Sharing] = {}
        self.n_recorded = 0
        self.counts_at_start: list[tuple[int, int]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in PROPERTY_READS or torch.compiler.is_compiling() or is_in_backward_pass():
            return func(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            with self:  # inside this method, the mode is off; here it is to see each operation of the copy
                return multi_head_attention_forward(*args, **kwargs)
        if func is interchanged:  # a function of regard that hands itself to the mode, as torch functions do
            return self.replace_outputs(func(*args, **kwargs))
        is_attention = func is attend or func is F.scaled_dot_product_attention
        if is_attention and self.ask is not None and self.records_layer_of(self.running.path):
            attended = self.attended_with_statistics(func, args, kwargs)
            if attended is not None:
                self.record(attended)
                if func is attend:
                    return attended
                shape = output_shape(*args, **kwargs)
                return from_four_axes(attended.context, shape, self.running.head_counts.query_heads)
        in_place = kwargs.get("inplace") or is_in_place(getattr(func, "__name__", ""))
        if in_place and args and isinstance(args[0], Tensor):
            self.before_change(args[0])
        result, weighted_sum = self.written_out.run(func, args, kwargs)
        if weighted_sum is not None:
            reason = self.doubt(weighted_sum)
            if reason is not None:
                weighted_sum = None
                self.doubtful.setdefault(self.running.path, reason)
        elif chain := self.matrix_chains.chain_ended_by(func, args, kwargs, result):
            self.doubtful.setdefault(self.running.path, NO_ATTENTION)
            if chain is Chain.WITH_SOFTMAX:
                self.unrecognised.add(self.running.path)
        try:
            attended = self.attended_of(func, args, kwargs, result, weighted_sum)
        except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
            self.record_unseen(f"its pattern cannot be made: {error}")
        else:
            if attended is not None:
                self.record(attended)
        return result

    def attended_with_statistics(self, func: Any, args: Any, kwargs: Any) -> Attended | None:
        """Compute context and statistics of an attention call together, by regard's kernels.

        Return None if the kernels do not support the call, or if the call has its own argument `ask`. Also return None
        in a layer that divides pictures into windows: the windows are joined before statistics are computed.
        """
        if windows_around(self.windows, self.running.path) is not None:
            return None
        if func is attend:
            if kwargs.get("ask") is not None:
                return None
            query, key = args[:2]
            n_items, n_heads, n_queries, _ = query.shape
            self.check_ask(Grid(n_items, n_heads, n_queries, key.shape[2]))
            return attend(*args, **{**kwargs, "ask": self.ask})
        try:
            call, dropout = sdpa_call(self.running.head_counts, *args, **kwargs)
        except (ValueError, TypeError, RuntimeError):
            # the caller then runs `func`, gets this error again from `attended_of`, and lists the module as unseen
            return None
        self.check_ask(call.grid)
        if usable_engine(call, dropout, self.ask) is None:  # for instance if dropout is above 0
            return None
        return attend(call.query, call.key, call.value, score=call.score, mask=call.mask, ask=self.ask)

    def attended_of(
        self, func: Any, args: Any, kwargs: Any, result: Any, weighted_sum: WeightedSum | None
    ) -> Attended | None:
        """Return the context and the pattern of a call of a torch function; None if the call computes no attention.

        `result` is what the function returned, and `weighted_sum` what `WrittenOut` recognised in the call.
        """
        if weighted_sum is not None:
            return written_out_attention(weighted_sum, self.running.head_counts.query_heads)
        if func is attend:
            return result
        if func is F.scaled_dot_product_attention:
            if result in CHANGED:
                return CHANGED[result]
            call, _ = sdpa_call(self.running.head_counts, *args, **kwargs)
            context = four_axes(result, result.shape[:-2], self.running.head_counts.query_heads)
            context = context.reshape(*call.grid.shape[:3], -1)
            return Attended(context=context, pattern=Pattern(call), backend="sdpa")
        if func is torch.ops.higher_order.flex_attention:
            return Attended(context=result[0], pattern=Pattern(flex_call(*args, **kwargs)), backend="flex")
        return None

    def record(self, attended: Attended) -> None:
        self.n_recorded += 1
        path, n_earlier_calls = self.count_call()
        if not self.records_layer_of(path):
            return
        if self.ask is None:
            attended = self.sharing.setdefault(path, Sharing()).share_memory(attended)
        else:
            windows = windows_around(self.windows, path)
            attended = attended if windows is None else windows.in_rows(attended)
            self.check_ask(attended.pattern.grid)
            attended = answered(attended, self.ask)
        self.watched.steps.append(WatchedStep(path, layer_of(path), n_earlier_calls, attended))

    def check_ask(self, grid: Grid) -> None:
        assert self.ask is not None
        try:
            self.ask.check(grid)
        except ValueError as error:
            path = self.running.path or MODEL_ITSELF
            advice = "" if self.ask.groups is None else EVERY_LAYER
            raise InputError(f"ask=… does not fit the attention in {path}: {error}{advice}") from error

    def replace_outputs(self, attended: Attended) -> Attended:
        """Record `attended`, in which outputs of heads are replaced, as the result of the latest call; return it."""
        if self.ask is None and self.records_layer_of(self.running.path):
            latest = self.watched.steps[-1]
            self.watched.steps[-1] = replace(latest, attended=replace(attended, pattern=latest.attended.pattern))
        return attended

    def record_unseen(self, reason: str) -> None:
        path, _ = self.count_call()
        if self.records_layer_of(path):
            self.watched.unseen.setdefault(path or MODEL_ITSELF, reason)

    def before_change(self, tensor: Tensor) -> None:
        """Copy the latest attention context if it shares memory with `tensor`, which is to be changed in place."""
        if not self.watched.steps:
            return
        latest = self.watched.steps[-1]
        context = latest.attended.context
        if not context.is_meta and context.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
            self.watched.steps[-1] = replace(latest, attended=replace(latest.attended, context=context.clone()))

    def count_call(self) -> tuple[str, int]:
        """Count an attention call of the running module; return its path and the number of its earlier calls."""
        path = self.running.path
        self.n_calls[path] += 1
        return path, self.n_calls[path] - 1

    def records_layer_of(self, path: str) -> bool:
        return self.watched.layers is None or layer_of(path) in self.watched.layers

    def enter(self, n_running: int, arguments: Mapping[str, Any]) -> None:  # as `running_modules` calls it
        self.counts_at_start.append((self.n_calls.total(), self.n_recorded))

    def leave(self, module: nn.Module, has_output: bool) -> None:
        """When a module ends, list it as unseen if its class is named like attention and it made no attention call.

        A module without output, which raised an error, is not listed. If attention was recorded in a module that is
        named like attention, its submodules are removed from the list: the output projection, for example, may also be
        named like attention, and computes no attention.
        """
        n_calls_before, n_recorded_before = self.counts_at_start.pop()
        if not has_output or is_in_backward_pass() or not ATTENTION_NAME.search(type(module).__name__):
            return
        if self.n_calls.total() == n_calls_before:
            self.record_unseen(NO_ATTENTION)
        elif self.n_recorded > n_recorded_before:
            unseen = self.watched.unseen
            for path in [path for path in unseen if path.startswith(f"{self.running.path}.")]:
                if unseen[path] == NO_ATTENTION:
                    del unseen[path]

    def doubt(self, weighted_sum: WeightedSum) -> str | None:
        """Return why a product of softmax weights and values may not be attention; None = it is attention."""
        if weighted_sum.is_over_features and not ATTENTION_NAME.search(self.running.class_name):
            return WEIGHTS_OF_PARAMETERS
        lead_sizes = [size for size in weighted_sum.scores.shape[:-2] if size > 1]
        # without an axis of queries, several axes are batch and heads only if the last has the module's number of heads
        has_unknown_axes = len(lead_sizes) > 1 and lead_sizes[-1] != self.running.head_counts.query_heads
        return SEVERAL_AXES if has_unknown_axes and not weighted_sum.has_query_axis else None

    def list_doubtful(self) -> None:
        """Add the modules in `doubtful` to `watched.unseen`; if attention was recorded, only those in `unrecognised`.

        Beside attention, state-space models and mixtures of experts compute products similar to it (see
        `matrix_chains.py` and `doubt`), but not both a softmax of a product and a second product.
        """
        for path, reason in sorted(self.doubtful.items()):
            is_attention = path in self.unrecognised and self.n_calls[path] == 0
            if self.records_layer_of(path) and (self.n_recorded == 0 or is_attention):
                self.watched.unseen.setdefault(path or MODEL_ITSELF, reason)


def is_in_backward_pass() -> bool:
    """Return whether this thread computes a backward pass, in which gradient checkpointing computes layers again."""
    return torch._C._current_graph_task_id() != -1


def written_out_attention(weighted_sum: WeightedSum, n_heads: int | None) -> Attended:
    """Return the context and the pattern of attention that a model computed by separate tensor operations.

    If the weights cannot be computed from queries and keys, the queries and keys of the pattern are 0, and the model's
    scores are a bias, so that 0 + bias gives the scores. `n_heads` is needed if one axis joins batch and heads; None =
    unknown.
    """
    lead, inputs = weighted_sum.scores.shape[:-2], weighted_sum.score_inputs

    def arranged(tensor: Tensor) -> Tensor:
        if weighted_sum.heads_first is None:
            return four_axes(tensor, lead, n_heads)
        return heads_and_batch(tensor, lead[0], weighted_sum.heads_first)

    scores, context, value = map(arranged, (weighted_sum.scores, weighted_sum.context, weighted_sum.value))
    if inputs is not None:
        query, key = arranged(inputs.query), arranged(inputs.key)
        bias, keep = (None if part is None else arranged(part) for part in (inputs.bias, inputs.keep))
        if bias is not None:
            bias, keep = without_lowest_numbers(bias, keep)
        score, normalise = ScaledDot(scale=inputs.scale, bias=bias), Softmax(sinks=inputs.sinks)
        mask = None if keep is None else Keep(keep)
        pattern = Pattern(Call.of(query, key, value.to(query.dtype), score, mask, normalise))
        if has_weights(pattern, scores):
            return Attended(context=context, pattern=pattern, backend="written out")
        if inputs.sinks is not None:  # `scores` have a column for sinks, which is no key
            raise ValueError("its softmax has sinks, and its scores are more than a scaled, masked and biased product.")
    query, key = (scores.new_zeros(*scores.shape[:2], n, 1) for n in scores.shape[2:])
    call = Call.of(query, key, value.to(query.dtype), ScaledDot(bias=scores), None, Softmax())
    return Attended(context=context, pattern=Pattern(call), backend="written out")


def without_lowest_numbers(bias: Tensor, keep: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return a bias without the lowest numbers of its type, and `keep` with False in their place.

    Models such as GPT-J and BLOOM mask keys by adding these numbers. A bias of nothing else becomes None. If a query
    would see no key, bias and `keep` are returned as they are: in such a model, the weights of this query are not 0.
    """
    if not bias.is_floating_point():
        return bias, keep
    is_seen = bias > torch.finfo(bias.dtype).min / 32  # CodeGen divides its mask by √d_key
    visible = is_seen if keep is None else is_seen & keep
    if bool(is_seen.all()) or not bool(visible.any(dim=-1).all()):
        return bias, keep
    rest = bias.masked_fill(~is_seen, 0.0)
    return rest if bool(rest.any()) else None, visible


IN_PLACE = re.compile(r"__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor)__|__setitem__|[a-z]\w*[a-z0-9]_")
"""Matches names of torch functions that change their first argument, such as __iadd__ and masked_fill_."""


@cache
def is_in_place(name: str) -> bool:
    return IN_PLACE.fullmatch(name) is not None


def has_weights(pattern: Pattern, scores: Tensor) -> bool:
    """Return whether the weights of a pattern equal the softmax of `scores`, which the model computed.

    Up to 64 queries of each head are compared. The scores may have one more column, for sinks (extra scores in the
    softmax's denominator).
    """
    *lead, n_keys = pattern.shape
    n_columns = n_keys if pattern.call.softmax_formula.sinks is None else n_keys + 1
    if scores.shape != (*lead, n_columns):
        return False
    rows = torch.linspace(0, pattern.shape[2] - 1, min(64, pattern.shape[2])).long().tolist()
    with torch.no_grad():
        weights = scores[:, :, rows].to(pattern.call.weights_dtype).softmax(dim=-1)[..., :n_keys]
        return torch.allclose(pattern[:, :, rows], weights, rtol=1e-4, atol=1e-5)
