"""Intercepts the attention calls of any PyTorch code and records them.

PyTorch passes every call of a torch function to the active `TorchFunctionMode`. The mode in this file runs each call,
and then records the calls that compute attention:

    F.scaled_dot_product_attention, nn.MultiheadAttention, FlexAttention     from the arguments of the call
    `regard.attend`                                                          from the result of the call
    matrix product → softmax → matrix product                                from these operations

If statistics are requested, `attend` computes context and statistics together, in place of the intercepted call.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.attention.ask import Ask
from regard.attention.attend import Attended, attend
from regard.attention.backends.choose import engine_with_context
from regard.attention.call import Call
from regard.attention.masks import Keep, Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.tracing.watching.flex_call import FlexMask, FlexScore
from regard.tracing.watching.four_axes import four_axes
from regard.tracing.watching.running_modules import HeadCounts
from regard.tracing.watching.sdpa_call import CHANGED, output_shape, sdpa_call
from regard.tracing.watching.written_out import WeightedSum, WrittenOut

multi_head_attention_forward = FunctionType(
    F.multi_head_attention_forward.__code__,
    {**vars(F), "has_torch_function": lambda tensors: False},
    argdefs=F.multi_head_attention_forward.__defaults__,
)
"""A copy of F.multi_head_attention_forward that passes each of its operations to the active TorchFunctionMode.

The original passes only itself, as one operation, so the attention inside it could not be recorded.
"""


SDPA, FLEX, WRITTEN_OUT = "sdpa", "flex", "written out"
"""The names of the ways in which a model computes attention, in the attribute `backend` of a recorded call."""


FUNCTIONS_WITH_STATISTICS = attend, F.scaled_dot_product_attention
"""The functions for which context and statistics can be computed together."""


class AttentionInterceptor(TorchFunctionMode, ABC):
    """Calls `record` with every attention call that PyTorch code makes in this thread, inside a `with` block."""

    def __init__(self) -> None:
        super().__init__()
        self.written_out = WrittenOut()

    @abstractmethod
    def record(self, attended: Attended) -> None:
        """Record an attention call: the context that the code computed, and the attention pattern."""

    @abstractmethod
    def record_unseen(self, reason: str) -> None:
        """Record the reason why no pattern can be made of an attention call."""

    @abstractmethod
    def head_counts(self) -> HeadCounts:
        """Return the numbers of heads of the running module, needed to split an axis that joins batch and heads."""

    @abstractmethod
    def requested_statistics(self) -> Ask | None:
        """Return the statistics to compute with the context of the next attention call; None = the context alone."""

    @abstractmethod
    def before_change(self, tensor: Tensor) -> None:
        """Called with a tensor before an operation changes it in place."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a torch function, and record the call if it computes attention."""
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            with self:
                return multi_head_attention_forward(*args, **kwargs)
        if func in FUNCTIONS_WITH_STATISTICS and (ask := self.requested_statistics()) is not None:
            seen = self.with_statistics(func, ask, args, kwargs)
            if seen is not None:
                self.record(seen)
                return seen if func is attend else seen.context.reshape(output_shape(*args, **kwargs))
        if args and isinstance(args[0], Tensor) and (kwargs.get("inplace") or is_in_place(name_of(func))):
            self.before_change(args[0])
        result, written_out = self.written_out.run(func, args, kwargs)
        if written_out is not None:
            self.try_to_record(self.written_out_step, written_out)
        elif func is attend:
            self.record(result)
        elif func is F.scaled_dot_product_attention:
            if result in CHANGED:
                self.record(CHANGED[result])
            else:
                self.try_to_record(self.sdpa_step, result, *args, **kwargs)
        elif func is torch.ops.higher_order.flex_attention:
            self.try_to_record(self.flex_step, result[0], *args, **kwargs)
        return result

    def with_statistics(self, func: Any, ask: Ask, args: Any, kwargs: Any) -> Attended | None:
        """Compute context and statistics of an attention call together, by regard's kernels.

        Return None if these kernels do not support the call, or if the call itself requests statistics.

        Args:
            func, args, kwargs: the torch function of attention and its arguments.
            ask: the statistics to compute.
        """
        if func is attend:
            return attend(*args, **{**kwargs, "ask": ask}) if kwargs.get("ask") is None else None
        try:
            call = sdpa_call(self.head_counts(), *args, **kwargs)
        except (ValueError, TypeError, RuntimeError):  # the original call follows, and is recorded as unseen
            return None
        dropout = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
        if engine_with_context(call, dropout) is None:
            return None
        return attend(call.query, call.key, call.value, score=call.score, mask=call.mask, ask=ask)

    def try_to_record(self, make_record: Callable[..., Attended], *args: Any, **kwargs: Any) -> None:
        """Call `make_record` with the other arguments, and record the attention call that it returns.

        If `make_record` raises an error, record that no pattern can be made, with the error's text as the reason.
        """
        try:
            attended = make_record(*args, **kwargs)
        except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
            self.record_unseen(f"its pattern cannot be made: {error}")
        else:
            self.record(attended)

    def sdpa_step(self, context: Tensor, *args: Any, **kwargs: Any) -> Attended:
        """Return the record of a call of F.scaled_dot_product_attention, which returned `context`."""
        call = sdpa_call(self.head_counts(), *args, **kwargs)
        return Attended(context=context.reshape(*call.grid.shape[:3], -1), pattern=Pattern(call), backend=SDPA)

    def flex_step(
        self,
        context: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: Callable[..., Tensor],
        block_mask: tuple[Any, ...],
        scale: float,
        kernel_options: Any,
        score_buffers: tuple[Any, ...] = (),
        mask_buffers: tuple[Any, ...] = (),
    ) -> Attended:
        """Return the record of a call of FlexAttention, which returned `context`."""
        score = FlexScore(score_mod, score_buffers, scale)
        return attended_of(context, query, key, value, score, FlexMask(block_mask[-1], mask_buffers), FLEX)

    def written_out_step(self, found: WeightedSum) -> Attended:
        """Return the record of attention that a model computed by separate tensor operations.

        If the weights cannot be computed from queries and keys, the queries and keys in the record are 0, and the
        model's scores are recorded as a bias, so that 0 + bias gives the scores.

        Args:
            found: the product of weights and values that was recognised as attention.
        """
        scores, product = found.weights.scores, found.weights.product
        lead, heads = scores.shape[:-2], self.head_counts().query_heads
        scores, context, value = (four_axes(part, lead, heads) for part in (scores, found.context, found.value))
        if product is not None:
            query, key = (four_axes(part, lead, heads) for part in (product.query, product.key))
            bias = None if product.bias is None else four_axes(product.bias, lead, heads)
            mask = None if product.keep is None else Keep(four_axes(product.keep, lead, heads))
            score, normalise = ScaledDot(scale=product.scale, bias=bias), Softmax(sinks=product.sinks)
            step = attended_of(context, query, key, value.to(query.dtype), score, mask, WRITTEN_OUT, normalise)
            if has_weights(step.pattern, scores):
                return step
            if product.sinks is not None:
                raise ValueError("its scores are more than a scaled, masked and biased product, with sinks beside it.")
        query, key = (scores.new_zeros(*scores.shape[:2], n, 1) for n in scores.shape[2:])
        return attended_of(context, query, key, value.to(query.dtype), ScaledDot(bias=scores), None, WRITTEN_OUT)


IN_PLACE = re.compile(r"__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor)__|__setitem__|[a-z]\w*[a-z0-9]_")
"""Matches the names of torch functions that change their first argument."""


@cache
def is_in_place(name: str) -> bool:
    return IN_PLACE.fullmatch(name) is not None


def name_of(func: Any) -> str:
    return getattr(func, "__name__", "")


def attended_of(
    context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Score,
    mask: Mask | None,
    backend: str,
    normalise: Softmax = Softmax(),  # noqa: B008 (frozen)
) -> Attended:
    """Return an `Attended`, as `attend` returns it, for an attention call that other code computed."""
    call = Call.of(query, key, value, score, mask, normalise)
    return Attended(context=context, pattern=Pattern(call), backend=backend)


def has_weights(pattern: Pattern, scores: Tensor) -> bool:
    """Return whether the weights of a pattern are the softmax of the scores that the model itself computed.

    In every head, up to 64 queries are compared. The scores may have one more column, for sinks (extra scores in the
    softmax's denominator).
    """
    n_keys = pattern.shape[3]
    if pattern.shape[:3] != scores.shape[:3] or scores.shape[3] - n_keys != (pattern.call.softmax.sinks is not None):
        return False
    rows = torch.linspace(0, pattern.shape[2] - 1, min(64, pattern.shape[2])).long().tolist()
    with torch.no_grad():
        weights = scores[:, :, rows].to(pattern.call.dtype).softmax(dim=-1)[..., :n_keys]
        return torch.allclose(pattern[:, :, rows], weights, rtol=1e-4, atol=1e-5)
