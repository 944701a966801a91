"""Recognises attention scores and contexts among matrix products (matmul, baddbmm, einsum, or multiply and sum).

The axes of each product have names, as in an einsum.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

import torch
from torch import Tensor

from regard.tracing.watching.named_axes import Axes, Axis, Named, new_axis
from regard.tracing.watching.origins import (
    FeatureOrigin,
    Origin,
    ScoreInputs,
    ScoreOrigin,
    WeightedSum,
    WeightedValues,
    WeightOrigin,
)


@dataclass(slots=True, eq=False)  # not frozen: every torch function makes one, and setting frozen fields takes longer
class Operation:
    """A call of a torch function.

    Attributes:
        operands: the tensors among its arguments.
        origins: how each operand was computed, as known before the call; the keys of the dict are id(operand).
    """

    func: Any
    result: Any
    operands: list[Tensor]
    origins: dict[int, Origin | None]

    def origin_of(self, operand: object) -> Origin | None:
        return self.origins.get(id(operand))


Number = int | float

ProductOrigin = ScoreOrigin | WeightedSum | None
"""The result of a matrix product: scores (`ScoreOrigin`), contexts (`WeightedSum`), or neither (None)."""


def matmul_origin(op: Operation, left: Tensor, right: Tensor) -> ProductOrigin:
    """Return how left @ right was computed; the axes are named as in (-4, -3, "row", "summed") @ ("summed", "column").

    A leading axis, such as batch or heads, is named by its index from the end.
    """
    lead: Axes = (*range(-max(left.ndim, right.ndim), -2),)
    left_axes = (*lead, "row", "summed")[-left.ndim :] if left.ndim > 1 else ("summed",)
    right_axes = (*lead, "summed", "column")[-right.ndim :] if right.ndim > 1 else ("summed",)
    axes = tuple([axis for axis in (*lead, "row", "column") if axis in (*left_axes, *right_axes)])
    return origin_of_product(op, Named(left, left_axes), Named(right, right_axes), axes)


def baddbmm_origin(
    op: Operation, bias: Tensor, left: Tensor, right: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> ScoreOrigin | None:
    """Return how the result of torch.baddbmm was computed: beta · bias + alpha · left @ right."""
    origin = matmul_origin(op, left, right)
    if not isinstance(origin, ScoreOrigin):
        return None
    origin = replace(origin, scale=float(alpha))
    return origin if beta == 0 else origin.with_bias(bias if beta == 1 else beta * bias)


def einsum_origin(op: Operation, equation: Any, *operands: Any) -> ProductOrigin:
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if len(operands) != 2 or not isinstance(equation, str) or "->" not in equation:
        return None
    inputs, output = equation.replace(" ", "").split("->")
    (left_letters, right_letters), (left, right) = inputs.split(","), operands
    named_left = Named(left, tuple(spell_out(left_letters, left.ndim)))
    named_right = Named(right, tuple(spell_out(right_letters, right.ndim)))
    return origin_of_product(op, named_left, named_right, tuple(spell_out(output, op.result.ndim)))


def spell_out(letters: str, n_axes: int) -> str:
    """Return the axes of an einsum operand with letters in place of "...": "YZqd" for "...qd" and 4 axes."""
    n_hidden = n_axes - len(letters.replace("...", ""))
    return letters.replace("...", ascii_uppercase[len(ascii_uppercase) - n_hidden :])


def weighted_values_origin(op: Operation, left: Any, right: Any) -> WeightedValues | None:
    """Return a `WeightedValues` if one factor is attention weights and the other is a tensor of values; else None."""
    weights, value = left, right
    if not isinstance(op.origin_of(left), WeightOrigin):
        weights, value = right, left  # unless neither is attention weights
    origin = op.origin_of(weights)
    if not isinstance(origin, WeightOrigin) or not isinstance(value, Tensor) or value.numel() == 1:
        return None
    axes = tuple([new_axis() for _ in op.result.shape])
    weight_axes, value_axes = (factor_axes(factor.shape, axes, op.result.shape) for factor in (weights, value))
    # an axis added to the weights after the softmax, as by weights[..., None].expand_as(value), only repeats them:
    # if `value` has the axis, too, it belongs to `value` alone (such as its features), and is None for the weights
    is_added = [name not in origin.scores.axes for name in origin.axes]
    named = zip(weight_axes, is_added, strict=True)
    weight_axes = tuple([None if added and axis in value_axes else axis for axis, added in named])
    return WeightedValues(axes, origin, Named(weights, weight_axes), Named(value, value_axes))


def factor_axes(shape: torch.Size, axes: Axes, product_shape: torch.Size) -> Axes:
    """Return the axes of a factor, given those of the product; None for an axis along which the factor is broadcast."""
    n = len(shape)
    sizes = zip(axes[-n:], shape, product_shape[-n:], strict=True)
    return tuple([axis if size == product_size else None for axis, size, product_size in sizes])


def sum_origin(op: Operation, product: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> WeightedSum | None:
    """Return how the sum of weights * values over the keys was computed; None for any other sum."""
    origin = op.origin_of(product)
    if not isinstance(origin, WeightedValues) or dim is None:
        return None
    summed = {origin.axes[index] for index in ([dim] if isinstance(dim, int) else dim)}
    axes = tuple([None if axis in summed else axis for axis in origin.axes if keepdim or axis not in summed])
    return weighted_sum(op, origin.weight_origin, origin.weights, origin.value, axes)


def origin_of_product(op: Operation, left: Named, right: Named, axes: Axes) -> ProductOrigin:
    """Return a `WeightedSum` if the product is weights @ value; else a `ScoreOrigin`: it may be scores.

    `axes` are the axes of the product. It must sum over one axis, which both factors have; otherwise, return None.
    """
    if any(len({*names}) < len(names) for names in (left.axes, right.axes, axes)):  # a diagonal, as in "ii,ij->ij"
        return None
    for weights, value in ((left, right), (right, left)):
        origin = op.origin_of(weights.tensor)
        if isinstance(origin, WeightOrigin):
            context_origin = weighted_sum(op, origin, weights, value, axes)
            if context_origin is not None:
                return context_origin
    summed = {*left.axes, *right.axes} - {*axes}
    in_both_factors = {*left.axes} & {*right.axes}
    if len(summed) != 1 or not summed.issubset(in_both_factors):
        return None
    new_name = {axis: new_axis() for axis in (*axes, *summed)}
    heads_first: dict[Axis, int] = {
        new_name[axis]: n for factor in (left, right) for axis, n in heads_first_of(op, factor)
    }
    left, right = (Named(factor.tensor, tuple([new_name[axis] for axis in factor.axes])) for factor in (left, right))
    names = tuple([new_name[axis] for axis in axes])
    return ScoreOrigin(names, left, right, new_name[summed.pop()], heads_first=heads_first)


def heads_first_of(op: Operation, factor: Named) -> list[tuple[Axis, int]]:
    """Return the axes of a factor that join heads and batch with the heads first, each with its number of heads."""
    origin = op.origin_of(factor.tensor)
    if not isinstance(origin, FeatureOrigin):
        return []
    names = zip(factor.axes, origin.axes, strict=True)
    return [(axis, origin.heads_first[name]) for axis, name in names if name in origin.heads_first]


def weighted_sum(op: Operation, origin: WeightOrigin, weights: Named, value: Named, axes: Axes) -> WeightedSum | None:
    """Return how a product of weights and values was computed; None if its sum is not over the keys.

    `axes` are the names of the product's axes, None = an axis of size 1; `weights` and `value` use the same names.
    """
    # maps the name of each axis of the weights in this product to its name in `origin`
    name_in_scores = {axis: name for axis, name in zip(weights.axes, origin.axes, strict=True) if axis is not None}
    size_of = {axis: size for axis, size in zip(axes, op.result.shape, strict=True) if axis is not None}
    summed = [axis for axis in name_in_scores if axis not in size_of]
    width_axes = [axis for axis in value.axes if axis is not None and axis not in name_in_scores]  # of features
    if len(summed) != 1 or summed[0] not in value.axes:
        return None
    if not width_axes or any(axis not in size_of for axis in width_axes):  # no features, or a sum over features
        return None
    keys = summed[0]
    n_keys_of_weights = weights.tensor.shape[weights.axes.index(keys)]
    # Names of axes of size 1 may be exchanged: weights [batch queries keys] of the sizes [3 1 1], viewed as [3 1], have
    # the axes batch and queries, even if the model dropped the queries. So the axis of one key may have another name.
    if name_in_scores[keys] != origin.keys and n_keys_of_weights != 1:
        return None
    of_weights_only = [axis for axis in name_in_scores if axis in size_of and axis not in value.axes]
    queries = of_weights_only[-1] if of_weights_only else None  # the others are heads that share one value
    lead = [axis for axis in name_in_scores if axis not in (queries, keys)]
    lead_sizes, n_queries = [size_of[axis] for axis in lead], 1 if queries is None else size_of[queries]
    values = value.arranged([*lead, keys, *width_axes])
    contexts = Named(op.result, axes).arranged([*lead, queries, *width_axes])
    # For the same reason, an axis that is not summed may have the name of the keys: it gets a new name.
    name_in_scores = {axis: new_axis() if name == origin.keys else name for axis, name in name_in_scores.items()}
    score_lead = [name_in_scores[axis] for axis in lead]
    score_queries = new_axis() if queries is None else name_in_scores[queries]
    scores = origin.scores.arranged([*score_lead, score_queries, origin.keys])
    if values is None or contexts is None or scores is None:
        return None
    inputs = None
    if origin.score_origin is not None:
        inputs = score_inputs(origin.score_origin, score_lead, score_queries, origin.keys, lead_sizes)
    return WeightedSum(
        scores=scores.expand(*lead_sizes, n_queries, -1),  # an axis that the scores lack has size 1 so far
        value=values.flatten(len(lead) + 1),
        context=contexts.flatten(len(lead) + 1),
        score_inputs=inputs,
        is_over_features=origin.is_over_features,
        has_query_axis=queries is not None,
        heads_first=origin.heads_first.get(score_lead[0]) if len(score_lead) == 1 else None,
    )


def score_inputs(
    origin: ScoreOrigin, lead: Sequence[Axis], queries: Axis, keys: Axis, lead_sizes: Sequence[int]
) -> ScoreInputs | None:
    """Return the inputs of the scores, with `lead` (axes of the sizes `lead_sizes`, such as batch and heads) in front.

    Return None if a tensor has other axes. Also return None if a finite number masks all keys of a query: the model
    gives these keys weights above 0, but the mask `keep` would give them 0.
    """
    query, key = (origin.left, origin.right) if keys in origin.right.axes else (origin.right, origin.left)
    query_numbers = query.arranged([*lead, queries, origin.summed])
    key_numbers = key.arranged([*lead, keys, origin.summed])
    if query_numbers is None or key_numbers is None:
        return None
    bias = None if origin.bias is None else origin.bias.arranged([*lead, queries, keys])
    keep = None if origin.keep is None else origin.keep.arranged([*lead, queries, keys])
    if (bias is None and origin.bias is not None) or (keep is None and origin.keep is not None):
        return None
    if origin.is_finite and keep is not None and not bool(keep.any(dim=-1).all()):
        return None
    query_numbers = query_numbers.expand(*lead_sizes, *query_numbers.shape[-2:])
    return ScoreInputs(query_numbers, key_numbers, origin.scale, bias, keep, origin.sinks)
