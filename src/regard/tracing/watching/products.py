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
from regard.tracing.watching.origins import Origin, ScoreInputs, ScoreOrigin, WeightedSum, WeightedValues, WeightOrigin


@dataclass(frozen=True, slots=True, eq=False)
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

Found = ScoreOrigin | WeightedSum | None
"""The result of a matrix product: scores (`ScoreOrigin`), contexts (`WeightedSum`), or neither (None)."""


def matmul_origin(op: Operation, left: Tensor, right: Tensor) -> Found:
    lead = [*range(-max(left.ndim, right.ndim), -2)]
    left_axes = [*lead, "query", "summed"][-left.ndim :] if left.ndim > 1 else ["summed"]
    right_axes = [*lead, "summed", "key"][-right.ndim :] if right.ndim > 1 else ["summed"]
    axes = [axis for axis in (*lead, "query", "key") if axis in (*left_axes, *right_axes)]
    return origin_of_product(op, Named(left, (*left_axes,)), Named(right, (*right_axes,)), (*axes,))


def baddbmm_origin(
    op: Operation, bias: Tensor, left: Tensor, right: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> ScoreOrigin | None:
    """Return how the result of torch.baddbmm was computed: beta · bias + alpha · left @ right."""
    product = matmul_origin(op, left, right)
    if not isinstance(product, ScoreOrigin):
        return None
    product = replace(product, scale=float(alpha))
    return product if beta == 0 else product.with_bias(bias if beta == 1 else beta * bias)


def einsum_origin(op: Operation, equation: Any, *operands: Any) -> Found:
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if len(operands) != 2 or not isinstance(equation, str) or "->" not in equation:
        return None
    inputs, output = equation.replace(" ", "").split("->")
    parts = zip((*inputs.split(","), output), (*operands, op.result), strict=True)
    left_axes, right_axes, axes = (tuple(spell_out(part, tensor.ndim)) for part, tensor in parts)
    return origin_of_product(op, Named(operands[0], left_axes), Named(operands[1], right_axes), axes)


def spell_out(axes: str, n_axes: int) -> str:
    """Return the axes of an einsum operand with letters in place of "...": "YZqd" for "...qd" and 4 axes."""
    return axes.replace("...", ascii_uppercase[-(n_axes - len(axes) + 3) :] if n_axes > len(axes) - 3 else "")


def multiplied(op: Operation, left: Any, right: Any) -> WeightedValues | None:
    """Return a `WeightedValues` if one factor is attention weights and the other is a tensor of values; else None."""
    weights, value = (left, right) if isinstance(op.origin_of(left), WeightOrigin) else (right, left)
    origin = op.origin_of(weights)
    if not isinstance(origin, WeightOrigin) or not isinstance(value, Tensor) or value.numel() == 1:
        return None
    axes = tuple([new_axis() for _ in op.result.shape])
    of_weights, of_value = (factor_axes(part.shape, axes, op.result.shape) for part in (weights, value))
    # along an axis that was added after the softmax, the weights are only broadcast: if `value` has the axis, use None
    both = zip(of_weights, origin.axes, strict=True)
    of_weights = tuple([axis if name in origin.scores.axes or axis not in of_value else None for axis, name in both])
    return WeightedValues(axes, origin, Named(weights, of_weights), Named(value, of_value))


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
    summed = {origin.axes[at] for at in ([dim] if isinstance(dim, int) else dim)}
    axes = [None if axis in summed else axis for axis in origin.axes if keepdim or axis not in summed]
    return weighted_sum(op, origin.origin, origin.weights, origin.value, (*axes,))


def origin_of_product(op: Operation, left: Named, right: Named, axes: Axes) -> Found:
    """Return a `WeightedSum` if the product is weights @ value; else a `ScoreOrigin`: it may be scores.

    `axes` are the axes of the product. It must sum over one axis, which both factors have; otherwise, return None.
    """
    if any(len({*letters}) < len(letters) for letters in (left.axes, right.axes, axes)):
        return None
    for weights, value in ((left, right), (right, left)):
        origin = op.origin_of(weights.tensor)
        if isinstance(origin, WeightOrigin) and (found := weighted_sum(op, origin, weights, value, axes)) is not None:
            return found
    summed = {*left.axes, *right.axes} - {*axes}
    if len(summed) != 1 or not summed <= {*left.axes} & {*right.axes}:
        return None
    names = {letter: new_axis() for letter in (*axes, *summed)}
    left, right = (Named(part.tensor, tuple([names[letter] for letter in part.axes])) for part in (left, right))
    return ScoreOrigin(tuple([names[letter] for letter in axes]), left, right, names[summed.pop()])


def weighted_sum(op: Operation, origin: WeightOrigin, weights: Named, value: Named, axes: Axes) -> WeightedSum | None:
    """Return how a product of weights and values was computed; None if its sum is not over the keys.

    `axes` are the names of the product's axes, None = an axis of size 1; `weights` and `value` use the same names.
    """
    name_of = {letter: name for letter, name in zip(weights.axes, origin.axes, strict=True) if letter is not None}
    size_of = {letter: size for letter, size in zip(axes, op.result.shape, strict=True) if letter is not None}
    summed = [letter for letter in name_of if letter not in size_of]
    width = [letter for letter in value.axes if letter is not None and letter not in name_of]
    if len(summed) != 1 or summed[0] not in value.axes or not width or any(letter not in size_of for letter in width):
        return None
    if name_of[summed[0]] != origin.keys and weights.tensor.shape[weights.axes.index(summed[0])] != 1:
        return None
    of_weights_only = [letter for letter in name_of if letter in size_of and letter not in value.axes]
    query = of_weights_only[-1] if of_weights_only else None
    lead = [letter for letter in name_of if letter not in (query, *summed)]
    values = value.arranged([*lead, *summed, *width])
    contexts = Named(op.result, axes).arranged([*lead, query, *width])
    lead_sizes, n_queries = [size_of[letter] for letter in lead], 1 if query is None else size_of[query]
    # with one key, an axis of size 1 that is not summed may have the name of the axis of the keys: rename it
    name_of = {letter: name if name != origin.keys else new_axis() for letter, name in name_of.items()}
    lead_names, query_name = [name_of[letter] for letter in lead], new_axis() if query is None else name_of[query]
    scores = origin.scores.arranged([*lead_names, query_name, origin.keys])
    if values is None or contexts is None or scores is None:
        return None
    product = origin.product
    inputs = None if product is None else score_inputs(product, lead_names, query_name, origin.keys, lead_sizes)
    return WeightedSum(
        scores=scores.expand(*lead_sizes, n_queries, -1),
        value=values.flatten(len(lead) + 1),
        context=contexts.flatten(len(lead) + 1),
        product=inputs,
        of_parameters=origin.of_parameters,
        one_query=query is None,
    )


def score_inputs(
    product: ScoreOrigin, lead: Sequence[Axis], queries: Axis, keys: Axis, lead_sizes: Sequence[int]
) -> ScoreInputs | None:
    """Return the inputs of the scores, with `lead` (axes of the sizes `lead_sizes`, such as batch and heads) in front.

    Return None if a tensor has other axes. Also return None if a finite number masks all keys of a query: the model
    gives these keys weights above 0, but the mask `keep` would give them 0.
    """
    query, key = (product.left, product.right) if keys in product.right.axes else (product.right, product.left)
    query_numbers, key_numbers = (
        part.arranged([*lead, tokens, product.summed]) for part, tokens in ((query, queries), (key, keys))
    )
    bias, keep = (
        None if part is None else part.arranged([*lead, queries, keys]) for part in (product.bias, product.keep)
    )
    if query_numbers is None or key_numbers is None:
        return None
    if (bias is None, keep is None) != (product.bias is None, product.keep is None):
        return None
    if product.is_finite and keep is not None and not bool(keep.any(dim=-1).all()):
        return None
    query_numbers = query_numbers.expand(*lead_sizes, *query_numbers.shape[-2:])
    return ScoreInputs(query_numbers, key_numbers, product.scale, bias, keep, product.sinks)
