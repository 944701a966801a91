"""Recognises attention that a model computes by separate tensor operations, from the sequence of the operations.

    scores  = query @ key.mT                    any product of two tensors that sums over one axis
    scores  = scores * scale + bias             with a number as scale
    scores  = scores.masked_fill(~keep, -inf)   or torch.where
    scores  = cat([scores, sinks])              one more column for sinks, the last or the first; the weights are then
                                                weights[..., :-1] or weights[..., 1:]
    weights = softmax(scores)                   over the axis of the keys, whichever it is
    context = dropout(weights) @ value          any product that sums over the axis of the keys; or multiply and sum

Between these lines, scores and weights may be viewed, transposed and expanded; but the axis of the keys must not be
split, or joined with another axis. For the result of each line, `WrittenOut` stores how it was computed and the names
of its axes (see `named_axes.py`). A softmax that is followed by a product with values is taken as attention. If its
scores were not computed as above, the scores themselves are recorded, without queries and keys.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.tracing.watching.named_axes import AxesChange, Axis, Named, expansion, new_axis, permutation, view
from regard.tracing.watching.origins import FeatureOrigin, Origin, ScoreOrigin, WeightedSum, WeightOrigin, is_parameter
from regard.tracing.watching.products import (
    Number,
    Operation,
    baddbmm_origin,
    einsum_origin,
    matmul_origin,
    sum_origin,
    weighted_values_origin,
)
from regard.tracing.watching.tensor_table import TensorTable

OPERANDS = ("condition", "input", "self", "mask", "value", "batch1", "batch2", "mat2", "other")
"""Keywords of torch functions for their operands, in the order in which the operands are passed without keywords."""


class WrittenOut:
    """Stores how scores, weights and similar tensors were computed, and how often each had been changed in place."""

    def __init__(self) -> None:
        self.origins = TensorTable[tuple[Origin, int]]()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, WeightedSum | None]:
        """Run a torch function, and store how its result was computed if it is attention scores or weights.

        The second result is a `WeightedSum` if the function computed an attention context, weights @ value; else None.
        """
        rule = RULES.get(getattr(func, "__name__", "").strip("_"))
        if rule is None and not self.origins:
            return func(*args, **kwargs), None
        operands, options = list(args), {}
        if kwargs:  # rules take operands by place
            operands += [kwargs[name] for name in OPERANDS if name in kwargs]
            options = {name: option for name, option in kwargs.items() if name not in OPERANDS}
        tensors = tensors_in(operands)
        origins = {id(tensor): self.origin(tensor) for tensor in tensors}  # now, since `func` may change an operand
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor):
            return result, None
        op = Operation(func, result, tensors, origins)
        try:
            origin = None if rule is None else rule(op, *operands, **options)
        except (TypeError, ValueError, IndexError, AttributeError, RuntimeError):  # a call that `rule` does not know
            origin = None
        if isinstance(origin, WeightedSum):
            return result, origin
        if origin is None:  # features stay features in operations that keep the shape, such as an activation
            origin = inherited_features(op)
        if origin is not None:
            self.origins[result] = (origin, version(result))
        return result, None

    def origin(self, tensor: Tensor) -> Origin | None:
        """Return how a tensor was computed; None if that is unknown, or if the tensor was changed in place since."""
        entry = self.origins.get(tensor)
        if entry is None:
            return None
        origin, version_then = entry
        return origin if version(tensor) == version_then else None


def tensors_in(arguments: list[Any]) -> list[Tensor]:
    """Return the tensors among the arguments of a torch function, and in lists and tuples among them."""
    tensors: list[Tensor] = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            tensors.append(argument)
        elif isinstance(argument, list | tuple):
            tensors += [part for part in argument if isinstance(part, Tensor)]
    return tensors


def version(tensor: Tensor) -> int:
    """Return the in-place version counter of a tensor; 0 for an inference-mode tensor, which has no counter."""
    return 0 if tensor.is_inference() else tensor._version


# Each of the following rules is called with an operation and its arguments. It returns how the result was computed;
# None = the result is not recognised as a part of attention.


def linear_origin(op: Operation, *_: Any, **__: Any) -> FeatureOrigin:
    """Return a `FeatureOrigin` for the output of a linear layer; its feature axis is the last axis."""
    axes = tuple([new_axis() for _ in op.result.shape])
    return FeatureOrigin(axes, frozenset(axes[-1:]))


def inherited_features(op: Operation) -> FeatureOrigin | None:
    """Return the `FeatureOrigin` of an operand that has the shape of the result; None if no operand has one."""
    for operand in op.operands:
        origin = op.origin_of(operand)
        if isinstance(origin, FeatureOrigin | ScoreOrigin) and origin.features and operand.shape == op.result.shape:
            return FeatureOrigin(origin.axes, origin.features, origin.heads_first)
    return None


def broadcast_score_origin(op: Operation, operand: Any) -> ScoreOrigin | None:
    """Return the `ScoreOrigin` of `operand`, broadcast to the shape of the result; None if `operand` has none."""
    origin = op.origin_of(operand)
    if not isinstance(origin, ScoreOrigin):
        return None
    if op.result.shape == operand.shape:
        return origin
    change = expansion(origin.axes, operand.shape, op.result.shape)
    return None if change is None else origin.after(change, op.result.numel())


def multiplication_origin(op: Operation, left: Any, right: Any) -> Origin | None:
    scores, number = (left, right) if op.origin_of(left) is not None else (right, left)
    origin = op.origin_of(scores)
    if isinstance(origin, ScoreOrigin) and origin.keep is None and is_number(number):
        factor = float(number)
        bias = None if origin.bias is None else Named(origin.bias.tensor * factor, origin.bias.axes)
        return replace(origin, scale=origin.scale * factor, bias=bias)
    return weighted_values_origin(op, left, right)  # None, unless a factor is attention weights


def division_origin(op: Operation, scores: Any, number: Any) -> ScoreOrigin | None:
    """Return how scores / number was computed; None if the scores are masked."""
    if not isinstance(op.origin_of(scores), ScoreOrigin) or not is_number(number) or float(number) == 0:
        return None
    origin = multiplication_origin(op, scores, 1 / float(number))
    return origin if isinstance(origin, ScoreOrigin) else None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, Tensor) and value.numel() == 1 and value.ndim <= 1)


def addition_origin(op: Operation, left: Any, right: Any, *, alpha: Number = 1) -> ScoreOrigin | None:
    scores, bias = (left, right) if isinstance(op.origin_of(left), ScoreOrigin) else (right, left)
    origin = broadcast_score_origin(op, scores)
    if alpha != 1 or origin is None:
        return None
    if not isinstance(bias, Tensor):
        return origin if math.isfinite(bias) else None  # the same number for all keys does not change the softmax
    return origin.with_bias(bias.to(torch.result_type(op.result, bias)))  # a boolean bias adds 1 and 0


def masked_fill_origin(op: Operation, scores: Tensor, mask: Tensor, value: Any) -> Origin | None:
    """Return how scores.masked_fill(mask, value) was computed; None if `value` > -10,000: this masks no key.

    If `scores` are attention weights, and masked_fill changes no number, return how these weights were computed.
    """
    origin = op.origin_of(scores)
    if isinstance(origin, WeightOrigin):  # after an operation in place, the numbers before it are gone
        return origin if op.result is not scores and torch.equal(op.result, scores) else None
    score_origin = broadcast_score_origin(op, scores)
    if score_origin is None or not is_number(value) or mask.dtype != torch.bool or float(value) > -1e4:
        return None
    return score_origin.masked(~mask, is_finite=math.isfinite(value))


def where_origin(op: Operation, first: Any, second: Any = None, third: Any = None) -> Origin | None:
    """Return how scores that torch.where masks were computed; None if the call has none of these forms:

    torch.where(keep, scores, number), scores.where(keep, number), or torch.where(mask, number, scores).
    """
    condition, if_true, if_false = first, second, third
    if op.origin_of(first) is not None:  # the second form
        if_true, condition, if_false = first, second, third
    if op.origin_of(if_true) is not None:
        return masked_fill_origin(op, if_true, ~condition, if_false)
    return None if op.origin_of(if_false) is None else masked_fill_origin(op, if_false, condition, if_true)


def softmax_origin(op: Operation, scores: Tensor, dim: int | None = None, *_: Any, **__: Any) -> WeightOrigin | None:
    if dim is None:
        return None
    origin = op.origin_of(scores)
    axes = tuple([new_axis() for _ in scores.shape]) if origin is None else origin.axes
    keys = axes[dim]
    is_over_features = is_parameter(scores)
    heads_first: Mapping[Axis, int] = {}
    if isinstance(origin, ScoreOrigin | FeatureOrigin):
        is_over_features, heads_first = is_over_features or keys in origin.features, origin.heads_first
    weight_origin = WeightOrigin(
        axes, keys, Named(scores, axes), None, is_over_features=is_over_features, heads_first=heads_first
    )
    if not isinstance(origin, ScoreOrigin):
        return weight_origin
    has_sinks = origin.sinks is not None
    return replace(weight_origin, with_sinks=origin) if has_sinks else replace(weight_origin, score_origin=origin)


def cat_origin(op: Operation, tensors: Any, dim: int = 0) -> ScoreOrigin | None:
    """Return how cat([scores, sinks], -1) or cat([sinks, scores], -1) was computed.

    A sink is an extra score in the softmax's denominator, the same for all queries of a head.
    """
    sinks_first = not isinstance(op.origin_of(tensors[0]), ScoreOrigin)
    scores, column = reversed(tensors) if sinks_first else tensors  # `run` catches the error if there are more
    origin = op.origin_of(scores)
    is_along_keys = dim in (-1, op.result.ndim - 1)
    is_column = column.shape[1:] == (*scores.shape[1:3], 1)  # [batch heads queries 1]
    if not (isinstance(origin, ScoreOrigin) and is_along_keys and is_column):
        return None
    sink_of_head = column[:1, :, :1]
    if not torch.equal(column, sink_of_head.expand_as(column)):
        return None
    return replace(origin, sinks=sink_of_head.flatten(), sinks_first=sinks_first)


def subtraction_origin(op: Operation, scores: Any, number: Any, *, alpha: Number = 1) -> ScoreOrigin | None:
    """Return how `scores` was computed if one number is subtracted for each query: the softmax stays the same."""
    is_one_for_each_query = isinstance(number, Tensor) and number.ndim == op.result.ndim and number.shape[-1] == 1
    return broadcast_score_origin(op, scores) if is_one_for_each_query else None


def index_origin(op: Operation, tensor: Any, index: Any) -> Origin | None:
    """Return how tensor[index] was computed; None if the index omits more than the column of attention sinks."""
    parts = index if isinstance(index, tuple) else (index,)
    if not all(part is None or part is Ellipsis or isinstance(part, int | slice) for part in parts):
        return None
    if all(part is None or part is Ellipsis or part == slice(None) for part in parts):  # at most, axes are added
        return permutation_origin(op, tensor, index)
    origin = op.origin_of(tensor)
    if not isinstance(origin, WeightOrigin) or origin.with_sinks is None or origin.keys != origin.axes[-1]:
        return view_origin(op, tensor)  # None, unless only axes of size 1 are indexed
    sinks_first = origin.with_sinks.sinks_first
    all_but_sinks = slice(1, None) if sinks_first else slice(None, -1)
    in_all_axes = (*[slice(None)] * (tensor.ndim - 1), all_but_sinks)
    if index not in ((Ellipsis, all_but_sinks), in_all_axes):  # weights[..., :-1] or weights[:, :, :, :-1]
        return None
    scores, axes = origin.scores.tensor, origin.scores.axes
    if sinks_first:  # a `WeightOrigin` without the column of sinks has the sinks last in its scores
        scores = scores.roll(-1, dims=axes.index(origin.keys))
    return replace(origin, scores=Named(scores, axes), score_origin=origin.with_sinks, with_sinks=None)


def origin_after(op: Operation, tensor: Tensor, change_of: Callable[[Origin], AxesChange | None]) -> Origin | None:
    """Return how the result was computed, if it is `tensor` with changed axes, such as a transpose.

    Return None if it is unknown how `tensor` was computed, or if `change_of`, which finds the change, returns None.
    """
    origin = op.origin_of(tensor)
    if origin is None or (op.result is tensor and len(origin.axes) != tensor.ndim):
        return None  # unsqueeze_, for example, has replaced the shape that `origin` is about
    change = change_of(origin)
    return None if change is None else origin.after(change, tensor.numel())


def view_origin(op: Operation, tensor: Any, *_: Any, **__: Any) -> Origin | None:
    """Return how a view, copy, conversion or dropout of `tensor` was computed; None if the size has changed."""
    if op.result.numel() != tensor.numel():
        return None
    return origin_after(op, tensor, lambda origin: view(origin.axes, tensor.shape, op.result.shape))


def permutation_origin(op: Operation, tensor: Any, *args: Any, **kwargs: Any) -> Origin | None:
    """Return how a tensor with permuted or added axes was computed, such as tensor.mT or tensor.unsqueeze(0)."""
    return origin_after(op, tensor, lambda origin: permutation(origin.axes, op.func, args, kwargs))


def expansion_origin(op: Operation, tensor: Any, *_: Any, **__: Any) -> Origin | None:
    return origin_after(op, tensor, lambda origin: expansion(origin.axes, tensor.shape, op.result.shape))


VIEWS = ("view", "view_as", "reshape", "reshape_as", "squeeze", "flatten", "ravel", "unflatten", "select")
COPIES = ("contiguous", "clone", "dropout", "to", "type", "type_as", "float", "double", "half", "bfloat16")
PERMUTATIONS = (
    "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "adjoint", "get", "unsqueeze",
)  # fmt: skip
"""Names of functions that permute axes or add axes of size 1; attributes such as tensor.mT have the name "get"."""
EXPANSIONS = ("expand", "expand_as", "broadcast_to", "repeat")

RULES: dict[str, Callable[..., Origin | WeightedSum | None]] = {
    **dict.fromkeys(("matmul", "mm", "mv", "bmm"), matmul_origin),
    "baddbmm": baddbmm_origin,
    "einsum": einsum_origin,
    **dict.fromkeys(("linear", "addmm"), linear_origin),
    **dict.fromkeys(("mul", "rmul", "imul", "multiply"), multiplication_origin),
    **dict.fromkeys(("div", "truediv", "itruediv", "divide", "true_divide"), division_origin),
    **dict.fromkeys(("add", "radd", "iadd"), addition_origin),
    "masked_fill": masked_fill_origin,
    "where": where_origin,
    "cat": cat_origin,
    **dict.fromkeys(("sub", "isub"), subtraction_origin),
    **dict.fromkeys(("softmax", "special_softmax"), softmax_origin),
    "sum": sum_origin,
    "getitem": index_origin,
    **dict.fromkeys((*VIEWS, *COPIES), view_origin),
    **dict.fromkeys(PERMUTATIONS, permutation_origin),
    **dict.fromkeys(EXPANSIONS, expansion_origin),
}
"""Maps the name of each operation (without underscores) to the function that returns how the result was computed."""
