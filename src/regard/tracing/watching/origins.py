"""How a tensor of a model was computed, if it is attention scores, attention weights, or a step towards contexts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from regard.tracing.watching.named_axes import Axes, Axis, Move, Named


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """How attention scores were computed: scale · left · right, summed over `summed`, + bias; -∞ where `keep` is False.

    Attributes:
        axes: the names of the axes of the scores.
        left, right: one has the queries and the other the keys; the axis of the softmax tells which.
        keep: a boolean mask, True = may attend; None = no mask.
        is_finite: whether masked scores are large negative numbers, and not -∞.
        sinks: for each head, an extra score in the softmax's denominator, stored as one more column of the scores; None
            = the scores have no such column.
        sinks_first: whether the sinks are the first column of the scores, not the last.
    """

    axes: Axes
    left: Named
    right: Named
    summed: Axis
    scale: float = 1.0
    bias: Named | None = None
    keep: Named | None = None
    is_finite: bool = False
    sinks: Tensor | None = None
    sinks_first: bool = False

    @property
    def features(self) -> frozenset[Axis]:
        """The axes of the scores that come from parameters of the model."""
        parts = [part for part in (self.left, self.right) if is_parameter(part.tensor)]
        return frozenset(axis for part in parts for axis in part.axes)

    def moved(self, move: Move, limit: int) -> "Product | None":
        """Return the `Product` of the scores after a move; None if it repeats a part to more than `limit` numbers."""
        parts: dict[str, Any] = {name: getattr(self, name) for name in ("left", "right", "bias", "keep")}
        for change in move.regroupings:
            parts = {name: part and part.regrouped(change, limit) for name, part in parts.items()}
            if any(parts[name] is None for name in parts if getattr(self, name) is not None):
                return None
        return replace(self, axes=move.axes, **parts)

    def with_bias(self, bias: Tensor) -> "Product":
        return replace(self, bias=self.combined(self.bias, bias, Tensor.add))

    def masked(self, keep: Tensor, *, is_finite: bool) -> "Product":
        """Return the `Product` of scores that are -∞, or a large negative number, where `keep` is False."""
        return replace(
            self, keep=self.combined(self.keep, keep, Tensor.logical_and), is_finite=is_finite or self.is_finite
        )

    def combined(self, present: Named | None, part: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Named:
        arranged = None if present is None else present.arranged(self.axes)
        if arranged is None:
            return Named(part, self.axes[len(self.axes) - part.ndim :])
        combined = combine(arranged, part)
        return Named(combined, self.axes[len(self.axes) - combined.ndim :])


@dataclass(frozen=True, slots=True, eq=False)
class Projected:
    """A tensor that a layer with parameters computed, or one with the same axes computed from it.

    `features` are the axes that come from the parameters: a softmax over one of them gives no attention weights.
    """

    axes: Axes
    features: frozenset[Axis]

    def moved(self, move: Move, limit: int) -> "Projected":
        regrouped = {name for change in move.regroupings if self.features & {*change.old} for name in change.new}
        return Projected(move.axes, self.features | regrouped)


@dataclass(frozen=True, slots=True, eq=False)
class Normalised:
    """How attention weights were computed: as the softmax of `scores` over the axis `keys`.

    Attributes:
        scores: the input of the softmax. One column may be sinks (extra scores in the softmax's denominator), the last
            column if `product` is not None.
        product: how the scores were computed. None = this is unknown, or the weights still have a column for sinks.
        with_sinks: how the scores were computed, if the weights still have a column for sinks. It becomes `product`
            when this column is cut off. None = the weights have no such column.
        of_parameters: whether the axis `keys` comes from parameters of the model, as in the gate of a mixture of
            experts, in a classifier, and in attention whose scores do not depend on the keys.
    """

    axes: Axes
    keys: Axis
    scores: Named
    product: Product | None
    with_sinks: Product | None = None
    of_parameters: bool = False

    def moved(self, move: Move, limit: int) -> "Normalised | None":
        """Return the weights after a move; None if the move joins or splits the axis of the keys."""
        scores: Named | None = self.scores
        for change in move.regroupings:
            if self.keys in change.old or scores is None:
                return None
            scores = scores.regrouped(change, limit)
        if scores is None:
            return None
        product, with_sinks = (part and part.moved(move, limit) for part in (self.product, self.with_sinks))
        return replace(self, axes=move.axes, scores=scores, product=product, with_sinks=with_sinks)


@dataclass(frozen=True, slots=True, eq=False)
class Multiplied:
    """A product of weights with values, number by number, of which a sum over the keys gives contexts.

    An axis of one factor that was repeated for the other has the name None.
    """

    axes: Axes
    origin: Normalised
    weights: Named
    value: Named

    def moved(self, move: Move, limit: int) -> None:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A `Product` whose tensors have the axes [... queries keys] or [... tokens width], or broadcast to them."""

    query: Tensor
    key: Tensor
    scale: float
    bias: Tensor | None
    keep: Tensor | None
    sinks: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSum:
    """A product of weights and values that computed attention contexts.

    Attributes:
        scores: [... queries keys]; with one more column, the last, if there are sinks.
        value: [... keys width]. context: [... queries width].
        product: how the scores were computed; None = this is unknown.
        of_parameters: whether the weights may be those of a gate or a classifier (see `Normalised`).
        one_query: whether the weights have no axis of queries, as for one query in each item of a batch.
    """

    scores: Tensor
    value: Tensor
    context: Tensor
    product: Scored | None
    of_parameters: bool
    one_query: bool


Origin = Product | Normalised | Projected | Multiplied
"""How a tensor was computed: `Product` for attention scores, `Normalised` for attention weights."""


def is_parameter(tensor: Tensor) -> bool:
    """Return whether a tensor is a parameter of a model, or a view of one."""
    return isinstance(tensor if tensor._base is None else tensor._base, nn.Parameter)
