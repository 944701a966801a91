"""Records of how a tensor was computed: attention scores, attention weights, or another step of attention."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from regard.tracing.watching.named_axes import Axes, AxesChange, Axis, Named


@dataclass(frozen=True, slots=True, eq=False)
class ScoreOrigin:
    """How attention scores were computed: scale · left · right, summed over `summed`, + bias; -∞ where `keep` is False.

    Attributes:
        axes: the names of the axes of the scores.
        left, right: one has the queries and the other the keys; the axis of the softmax tells which.
        keep: a boolean mask, True = may attend; None = no mask.
        is_finite: whether masked scores are large negative numbers, and not -∞.
        sinks: for each head, an extra score in the softmax's denominator, stored as one more column of the scores; None
            = the scores have no such column.
        sinks_first: whether the sinks are the first column of the scores, not the last.
        heads_first: the number of heads of each axis that joins heads and batch, heads first (see `FeatureOrigin`).
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
    heads_first: Mapping[Axis, int] = field(default_factory=dict)

    @property
    def features(self) -> frozenset[Axis]:
        """The axes of features, not of tokens: all axes of a factor that is a parameter, such as learned keys."""
        parameters = [factor for factor in (self.left, self.right) if is_parameter(factor.tensor)]
        return frozenset(axis for parameter in parameters for axis in parameter.axes)

    def after(self, change: AxesChange, limit: int) -> "ScoreOrigin | None":
        """Return the `ScoreOrigin` of the scores after an operation such as a reshape, which changes their axes.

        To save memory, return None if a tensor would have to be expanded to more than `limit` numbers.
        """
        tensors = {name: getattr(self, name) for name in ("left", "right", "bias", "keep")}
        tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        for regrouping in change.regroupings:
            tensors = {name: tensor.regrouped(regrouping, limit) for name, tensor in tensors.items()}
            if any(tensor is None for tensor in tensors.values()):
                return None
        return replace(self, axes=change.axes, **tensors)

    def with_bias(self, bias: Tensor) -> "ScoreOrigin":
        return replace(self, bias=self.combined(self.bias, bias, Tensor.add))

    def masked(self, keep: Tensor, *, is_finite: bool) -> "ScoreOrigin":
        """Return the `ScoreOrigin` after a mask: where `keep` is False, scores are -∞, or finite if `is_finite`."""
        return replace(
            self, keep=self.combined(self.keep, keep, Tensor.logical_and), is_finite=is_finite or self.is_finite
        )

    def combined(self, earlier: Named | None, new: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Named:
        tensor = new
        if earlier is not None:
            arranged = earlier.arranged(self.axes)
            assert arranged is not None  # the scores have all axes of a bias or mask whose size is not 1
            tensor = combine(arranged, new)
        return Named(tensor, self.axes[len(self.axes) - tensor.ndim :])


@dataclass(frozen=True, slots=True, eq=False)
class FeatureOrigin:
    """The output of a layer with parameters (such as nn.Linear), or a tensor of the same shape made from the output.

    Attributes:
        features: the axes of features, not of tokens, such as the last axis of the output of an nn.Linear: a softmax
            over such an axis gives no attention weights.
        heads_first: maps each axis that a view made by joining heads and batch, heads first (all batch items of head 0,
            then those of head 1, and so on), to the number of heads.
    """

    axes: Axes
    features: frozenset[Axis]
    heads_first: Mapping[Axis, int] = field(default_factory=dict)

    def after(self, change: AxesChange, limit: int) -> "FeatureOrigin":
        with_features = [regrouping for regrouping in change.regroupings if self.features & {*regrouping.old}]
        new_features = {axis for regrouping in with_features for axis in regrouping.new}
        heads_first = {}
        for regrouping in with_features:
            first, *others = regrouping.old  # heads and batch are joined if only the first axis has features
            if len(regrouping.new) == 1 and first in self.features and self.features.isdisjoint(others):
                heads_first[regrouping.new[0]] = regrouping.old_sizes[0]
        return FeatureOrigin(change.axes, self.features | new_features, {**self.heads_first, **heads_first})


@dataclass(frozen=True, slots=True, eq=False)
class WeightOrigin:
    """How attention weights were computed: as the softmax of `scores` over the axis `keys`.

    Of `score_origin` and `with_sinks`, one at most is not None; if both are, it is unknown how scores were computed.

    Attributes:
        scores: the input of the softmax. Sinks (extra scores in the softmax's denominator) are its last column, or its
            first if `with_sinks.sinks_first`.
        score_origin: how the scores were computed, if the weights have no column for sinks (any more).
        with_sinks: how the scores were computed, if the weights still have a column for sinks.
        is_over_features: whether the softmax is over outputs of a layer, not over tokens. Examples: the gate of a
            mixture of experts, a classifier, attention whose scores do not depend on the keys.
        heads_first: the number of heads of each axis that joins heads and batch, heads first (see `FeatureOrigin`).
    """

    axes: Axes
    keys: Axis
    scores: Named
    score_origin: ScoreOrigin | None
    with_sinks: ScoreOrigin | None = None
    is_over_features: bool = False
    heads_first: Mapping[Axis, int] = field(default_factory=dict)

    def after(self, change: AxesChange, limit: int) -> "WeightOrigin | None":
        """Return the `WeightOrigin` after a change of axes; None if the axis of the keys was joined or split."""
        scores: Named | None = self.scores
        for regrouping in change.regroupings:
            if self.keys in regrouping.old or scores is None:
                return None
            scores = scores.regrouped(regrouping, limit)
        if scores is None:
            return None
        score_origin, with_sinks = (
            None if origin is None else origin.after(change, limit) for origin in (self.score_origin, self.with_sinks)
        )
        return replace(self, axes=change.axes, scores=scores, score_origin=score_origin, with_sinks=with_sinks)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedValues:
    """The elementwise product weights * values, of which the sum over the keys is the attention context.

    In `weights.axes` and `value.axes`, None is an axis along which the tensor is broadcast.
    """

    axes: Axes
    weight_origin: WeightOrigin
    weights: Named
    value: Named

    def after(self, change: AxesChange, limit: int) -> None:
        """Return None: the product is recognised only if the sum over the keys follows at once."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreInputs:
    """The inputs of scores: query and key [... tokens width], bias and mask `keep` [... queries keys]."""

    query: Tensor
    key: Tensor
    scale: float
    bias: Tensor | None
    keep: Tensor | None
    sinks: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSum:
    """The matrix product weights @ value, which computed an attention context.

    Attributes:
        scores: [... queries keys]; sinks are one more column, the last.
        value: [... keys width]. context: [... queries width].
        score_inputs: what the scores were computed from; None = this is unknown.
        is_over_features: whether the softmax is over a layer's outputs, such as a classifier's classes, not over keys.
        has_query_axis: whether the weights have an axis of queries; if not, the axis `queries` above has size 1.
        heads_first: the number of heads, if the only leading axis of `scores` joins heads and batch with the heads
            first; else None.
    """

    scores: Tensor
    value: Tensor
    context: Tensor
    score_inputs: ScoreInputs | None
    is_over_features: bool
    has_query_axis: bool
    heads_first: int | None


Origin = ScoreOrigin | WeightOrigin | FeatureOrigin | WeightedValues


def is_parameter(tensor: Tensor) -> bool:
    """Return whether a tensor is a parameter of a model, or a view of one."""
    return isinstance(tensor if tensor._base is None else tensor._base, nn.Parameter)
