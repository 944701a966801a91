"""Recognises attention that a model computes by separate tensor operations, from the sequence of the operations.

    scores  = query @ key.mT                    matmul, bmm, baddbmm, einsum
    scores  = scores * scale + bias             with a number as scale
    scores  = scores.masked_fill(~keep, -inf)   or torch.where
    scores  = cat([scores, sinks])              one more column for sinks, the last or the first; the weights are then
                                                weights[..., :-1] or weights[..., 1:]
    weights = softmax(scores)                   over the last axis
    context = dropout(weights) @ value          matmul, bmm, einsum

For each tensor that results from one of these lines, `WrittenOut` stores how the tensor was computed. A softmax that is
followed by a product with values is taken as attention. If the scores of this softmax were not computed as above, the
scores themselves are recorded, without queries and keys.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """How attention scores [... queries keys] were computed: scale · query keyᵀ + bias; -∞ where `keep` is False.

    Attributes:
        keep: a boolean mask, True = may attend; None = no mask.
        sinks: for each head, an extra score in the softmax's denominator, stored as one more column of the scores;
            None = the scores have no such column.
        sinks_first: whether the sinks are the first column of the scores, not the last.
    """

    query: Tensor
    key: Tensor
    scale: float = 1.0
    bias: Tensor | None = None
    keep: Tensor | None = None
    sinks: Tensor | None = None
    sinks_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Normalised:
    """How attention weights [... queries keys] were computed: as the softmax of `scores`.

    Attributes:
        scores: the input of the softmax. One column may be sinks (extra scores in the softmax's denominator).
            If `product` is not None, this is the last column.
        product: how the scores were computed. None = this is unknown, or the weights still have a column for sinks.
        with_sinks: how the scores were computed, if the weights still have a column for sinks. It becomes `product`
            when this column is cut off. None = the weights have no such column.
    """

    scores: Tensor
    product: Product | None
    with_sinks: Product | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSum:
    """A product weights @ value that computed attention contexts; `weights` says how the weights were computed."""

    weights: Normalised
    value: Tensor
    context: Tensor


Origin = Product | Normalised
"""How a tensor was computed: `Product` for attention scores, `Normalised` for attention weights."""

OPERANDS = ("condition", "input", "self", "mask", "value", "batch1", "batch2", "mat2", "other")
"""The names of the operands of torch's functions, in the order in which every one of these functions takes them."""

Number = int | float
"""A number among the arguments of an operation: 1 as well as 1.0."""

OriginOf = Callable[[Any], Origin | None]
"""A function that returns how a tensor was computed, or None if that is unknown."""


class WrittenOut:
    """Records how the tensors of a model are computed, and recognises attention among the operations."""

    def __init__(self) -> None:
        self.origins: Any = WeakTensorKeyDictionary()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, WeightedSum | None]:
        """Run a torch function, and store how its result was computed if it is attention scores or weights.

        Returns:
            The result of the function, and a `WeightedSum` if this is an attention context, weights @ value; else None.
        """
        rule = RULES.get(getattr(func, "__name__", "").strip("_"))
        if rule is None or (not self.origins and rule not in FIRST_RULES):
            return func(*args, **kwargs), None
        operands = [*args, *(kwargs[name] for name in OPERANDS if name in kwargs)]
        options = {name: option for name, option in kwargs.items() if name not in OPERANDS}
        # read before `func` runs, since `func` may change an operand in place
        origins = {id(tensor): self.origin(tensor) for tensor in tensors_in(operands)}
        result = func(*args, **kwargs)
        try:
            origin = rule(lambda tensor: origins.get(id(tensor)), result, *operands, **options)
        except (TypeError, ValueError, IndexError, RuntimeError):  # a call that `rule` does not know
            origin = None
        if isinstance(origin, Product | Normalised):
            self.origins[result] = (origin, version(result))
        return result, origin if isinstance(origin, WeightedSum) else None

    def origin(self, tensor: Tensor) -> Origin | None:
        """Return how a tensor was computed; None if that is unknown, or if it was changed in place afterwards."""
        origin, at_version = self.origins.get(tensor, (None, 0))
        return origin if origin is not None and version(tensor) == at_version else None


def tensors_in(arguments: list[Any]) -> list[Tensor]:
    """Return all tensors among the arguments of an operation, also those inside lists and tuples."""
    flat = [part for argument in arguments for part in (argument if isinstance(argument, list | tuple) else [argument])]
    return [part for part in flat if isinstance(part, Tensor)]


def version(tensor: Tensor) -> int:
    """Return the in-place version counter of a tensor; 0 for an inference-mode tensor, which has no counter."""
    return 0 if tensor.is_inference() else tensor._version


# Each of the following rules is called with `origin_of` and with the result and the arguments of an operation. It
# returns how the result was computed; None = the result is not recognised as a part of attention.


def matmul_origin(origin_of: OriginOf, result: Tensor, left: Tensor, right: Tensor) -> Product | WeightedSum | None:
    """Return a `WeightedSum` for weights @ value, a `Product` for any other product of matrices; None for vectors."""
    if left.ndim < 2 or right.ndim < 2:
        return None
    weights = origin_of(left)
    if isinstance(weights, Normalised):
        return WeightedSum(weights, right, result)
    return Product(left, right.mT)


def baddbmm_origin(
    origin_of: OriginOf,
    result: Tensor,
    bias: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> Product:
    """Return the `Product` of torch.baddbmm, which computes beta · bias + alpha · left @ right."""
    if beta == 0:
        return Product(left, right.mT, float(alpha))
    return Product(left, right.mT, float(alpha), bias if beta == 1 else beta * bias)


def einsum_origin(origin_of: OriginOf, result: Tensor, equation: Any, *operands: Any) -> Product | WeightedSum | None:
    """Return a `WeightedSum` if the first operand of an einsum is attention weights, else a `Product`.

    Return None if the einsum does not have two operands, or if its result is neither contexts nor scores.
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if len(operands) != 2 or not isinstance(equation, str) or "->" not in equation:
        return None
    inputs, output = equation.replace(" ", "").split("->")
    parts = zip((*inputs.split(","), output), (*operands, result), strict=True)
    left_axes, right_axes, axes = ([*spell_out(part, tensor.ndim)] for part, tensor in parts)
    left, right = operands
    weights = origin_of(left)
    if isinstance(weights, Normalised):
        *lead, query, key = left_axes
        width = [axis for axis in right_axes if axis not in left_axes]
        if key in axes or len(width) != 1:
            return None
        value = arrange(right, right_axes, [*lead, key, *width])
        context = arrange(result, axes, [*lead, query, *width])
        return None if value is None or context is None else WeightedSum(weights, value, context)
    if len(axes) < 2:
        return None
    *lead, query, key = axes
    if query in right_axes:
        left, left_axes, right, right_axes = right, right_axes, left, left_axes
    summed = [axis for axis in left_axes if axis in right_axes and axis not in axes]
    queries, keys = arrange(left, left_axes, [*lead, query, *summed]), arrange(right, right_axes, [*lead, key, *summed])
    return Product(queries, keys) if len(summed) == 1 and queries is not None and keys is not None else None


def spell_out(axes: str, n_axes: int) -> str:
    """Return the axes of an einsum operand with letters in place of "...": "YZqd" for "...qd" and 4 axes."""
    return axes.replace("...", ascii_uppercase[-(n_axes - len(axes) + 3) :] if n_axes > len(axes) - 3 else "")


def arrange(tensor: Tensor, axes: list[str], wanted: list[str]) -> Tensor | None:
    """Permute the axes of a tensor, named by letters, into the order `wanted`.

    An axis in `wanted` that the tensor does not have is added with size 1. The result is None if the tensor has an axis
    that is not in `wanted`.

    >>> arrange(torch.ones(2, 3), ["j", "b"], ["b", "h", "j"]).shape
    torch.Size([3, 1, 2])
    """
    if sorted(axis for axis in wanted if axis in axes) != sorted(axes):
        return None
    permuted = tensor.permute([axes.index(axis) for axis in wanted if axis in axes])
    return permuted[tuple([slice(None) if axis in axes else None for axis in wanted])]


def multiplication_origin(origin_of: OriginOf, result: Tensor, left: Any, right: Any) -> Product | None:
    """Return the `Product` of scores * number; None unless one factor is scores without a mask, the other a number."""
    scores, number = (left, right) if origin_of(left) is not None else (right, left)
    product = origin_of(scores)
    if not isinstance(product, Product) or not is_number(number) or product.keep is not None:
        return None
    factor = float(number)
    bias = None if product.bias is None else product.bias * factor
    return replace(product, scale=product.scale * factor, bias=bias)


def division_origin(origin_of: OriginOf, result: Tensor, scores: Any, number: Any) -> Product | None:
    """Return the `Product` of scores / number: that of `scores`, with another scale and bias.

    Return None unless `scores` is attention scores without a mask, and `number` is a number other than 0.
    """
    if not is_number(number) or float(number) == 0:
        return None
    return multiplication_origin(origin_of, result, scores, 1 / float(number))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, Tensor) and value.numel() == 1 and value.ndim <= 1)


def addition_origin(origin_of: OriginOf, result: Tensor, left: Any, right: Any, *, alpha: Number = 1) -> Product | None:
    """Return the `Product` of scores + bias; None unless one of the two terms is attention scores."""
    product, bias = (origin_of(left), right) if isinstance(origin_of(left), Product) else (origin_of(right), left)
    if alpha != 1 or not isinstance(product, Product):
        return None
    if not isinstance(bias, Tensor):
        return product if math.isfinite(bias) else None  # the same number for all keys does not change the softmax
    bias = bias.to(torch.result_type(result, bias))  # True and False are added as 1 and 0
    return replace(product, bias=bias if product.bias is None else product.bias + bias)


def masked_fill_origin(origin_of: OriginOf, result: Tensor, scores: Tensor, mask: Tensor, value: Any) -> Origin | None:
    """Return how scores.masked_fill(mask, value) was computed; None unless the result is attention scores or weights.

    The result is scores with masked keys if `value` is -∞, or if it is at most -10,000 and each query still has an
    unmasked key. If `scores` is a tensor of weights and masked_fill changes no weight, the result is weights.
    """
    product = origin_of(scores)
    if isinstance(product, Normalised):
        return product if result is not scores and torch.equal(result, scores) else None
    if not isinstance(product, Product) or not is_number(value) or mask.dtype != torch.bool:
        return None
    keep = ~mask if product.keep is None else product.keep & ~mask
    if float(value) == -math.inf or (float(value) <= -1e4 and bool(keep.any(dim=-1).all())):
        return replace(product, keep=keep)
    return None


def where_origin(
    origin_of: OriginOf, result: Tensor, first: Any, second: Any = None, third: Any = None
) -> Origin | None:
    """Return how the result of a torch.where was computed; None unless the result is attention scores or weights.

    The result is scores with masked keys for torch.where(keep, scores, number), scores.where(keep, number) and
    torch.where(mask, number, scores), for numbers as in `masked_fill_origin`. It is weights if no weight was changed.
    """
    condition, taken, other = (first, second, third) if origin_of(first) is None else (second, first, third)
    if origin_of(taken) is not None:
        return masked_fill_origin(origin_of, result, taken, ~condition, other)
    return masked_fill_origin(origin_of, result, other, condition, taken) if origin_of(other) is not None else None


def softmax_origin(
    origin_of: OriginOf, result: Tensor, scores: Tensor, dim: int | None = None, *_: Any, **__: Any
) -> Any:
    """Return the `Normalised` of scores.softmax(dim); None unless `dim` is the last axis."""
    if dim not in (-1, result.ndim - 1) or result.ndim < 2:
        return None
    product = origin_of(scores)
    if not isinstance(product, Product):
        return Normalised(scores, None)
    return Normalised(scores, product) if product.sinks is None else Normalised(scores, None, with_sinks=product)


def cat_origin(origin_of: OriginOf, result: Tensor, tensors: Any, dim: int = 0) -> Product | None:
    """Return the `Product` of cat([scores, sinks], -1) or cat([sinks, scores], -1); None for any other concatenation.

    A sink is an extra score in the softmax's denominator, the same for all queries of a head.
    """
    sinks_first = origin_of(tensors[0]) is None
    scores, column = reversed(tensors) if sinks_first else tensors
    product, last = origin_of(scores), dim in (-1, result.ndim - 1)
    if not isinstance(product, Product) or not last or column.shape[1:] != (*scores.shape[1:3], 1):
        return None
    by_head = column[:1, :, :1]
    if not torch.equal(column, by_head.expand_as(column)):
        return None
    return replace(product, sinks=by_head.flatten(), sinks_first=sinks_first)


def subtraction_origin(
    origin_of: OriginOf, result: Tensor, scores: Any, number: Any, *, alpha: Number = 1
) -> Origin | None:
    """Return how scores - number was computed, if `number` has one number for each query; else None.

    The result is the same as for `scores`: such a subtraction does not change their softmax.
    """
    one_each = isinstance(number, Tensor) and number.ndim == result.ndim and number.shape[-1] == 1
    return origin_of(scores) if one_each and isinstance(origin_of(scores), Product) else None


def slice_origin(origin_of: OriginOf, result: Tensor, weights: Any, index: Any) -> Normalised | None:
    """Return how weights[..., :-1] or weights[..., 1:] was computed, if the slice cuts off the weights on sinks.

    Return None for any other slice.
    """
    origin = origin_of(weights)
    if not isinstance(origin, Normalised) or origin.with_sinks is None or not isinstance(index, tuple):
        return None
    sinks_first = origin.with_sinks.sinks_first
    kept = slice(1, None) if sinks_first else slice(None, -1)
    if index not in ((Ellipsis, kept), (*[slice(None)] * (weights.ndim - 1), kept)):
        return None
    return Normalised(origin.scores.roll(-1, dims=-1) if sinks_first else origin.scores, origin.with_sinks)


def view_origin(origin_of: OriginOf, result: Tensor, tensor: Any, *_: Any, **__: Any) -> Origin | None:
    """Return how the result of a dropout, a conversion or a view of scores or weights was computed.

    The result is the same as for `tensor`, the input, except for the leading axes (all but queries and keys), which a
    view may change. Return None if the sizes of queries or keys change, or if it is unknown how `tensor` was computed.
    """
    origin = origin_of(tensor)
    if origin is None or result.numel() != tensor.numel() or result.shape[-2:] != tensor.shape[-2:]:
        return None
    if result.shape == tensor.shape:
        return origin
    old, new = tensor.shape[:-2], result.shape[:-2]
    if isinstance(origin, Product):
        return reshaped(origin, old, new)
    product = None if origin.product is None else reshaped(origin.product, old, new)
    return Normalised(origin.scores.reshape(*new, *origin.scores.shape[-2:]), product)


def reshaped(product: Product, old: torch.Size, new: torch.Size) -> Product:
    """Return the `Product` of scores after a view that changed their leading axes: all but queries and keys.

    Query, key, bias and mask are expanded to the leading axes `old`, then reshaped to the leading axes `new`.
    """
    parts = {name: getattr(product, name) for name in ("query", "key", "bias", "keep")}
    for name, part in parts.items():
        if part is not None:
            parts[name] = part.expand(*old, *part.shape[-2:]).reshape(*new, *part.shape[-2:])
    return replace(product, **parts)


VIEWS = ("contiguous", "clone", "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten")
CONVERSIONS = ("to", "type", "type_as", "float", "half", "bfloat16")

RULES: dict[str, Callable[..., Origin | WeightedSum | None]] = {
    **dict.fromkeys(("matmul", "bmm"), matmul_origin),
    "baddbmm": baddbmm_origin,
    "einsum": einsum_origin,
    **dict.fromkeys(("mul", "rmul", "imul", "multiply"), multiplication_origin),
    **dict.fromkeys(("div", "truediv", "itruediv", "divide", "true_divide"), division_origin),
    **dict.fromkeys(("add", "radd", "iadd"), addition_origin),
    "masked_fill": masked_fill_origin,
    "where": where_origin,
    "cat": cat_origin,
    **dict.fromkeys(("sub", "isub"), subtraction_origin),
    "softmax": softmax_origin,
    "getitem": slice_origin,
    **dict.fromkeys(("dropout", *VIEWS, *CONVERSIONS), view_origin),
}
"""For each operation, by its name without underscores: the function that returns how its result was computed."""

FIRST_RULES = matmul_origin, baddbmm_origin, einsum_origin, softmax_origin
"""The rules that need no stored operand. All other rules are skipped while `WrittenOut` has stored no tensor."""
