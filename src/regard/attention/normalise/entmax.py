"""Entmax: a family of normalisers that contains softmax (alpha 1) and sparsemax (alpha 2).

    weights = max(1 + (α - 1)(scores - threshold), 0) ^ (1 / (α - 1))

with the threshold for which the weights sum to 1. As α → 1, the threshold approaches the log-sum-exp of the scores, and
the weights approach exp(scores - threshold), which is softmax. For α = 3/2 the threshold is computed exactly, by
sorting; for other values by bisection, to the precision of the data type.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention.constant import constant
from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.sparsemax import sparsemax
from regard.attention.precision import widest_type


@dataclass(frozen=True, slots=True, repr=False)
class Entmax(Normaliser):
    """Weights that sum to 1 and are exactly 0 for keys with low scores; the larger alpha is, the more weights are 0.

    Args:
        alpha: a number of at least 1. 1 = softmax, which has no weights of 0; 2 = sparsemax.

    Raises:
        ValueError: alpha is below 1, infinite or NaN.
        TypeError: alpha is a tensor that requires gradients.

    >>> import torch
    >>> from regard import Entmax, attend
    >>> scores = torch.tensor([1.0, 1.0, -1.0])[None, None, None]  # the keys, so that a query of 1 has these scores
    >>> pattern = attend(torch.ones(1, 1, 1, 1), scores.mT, scores.mT, normalise=Entmax(alpha=1.5)).pattern
    >>> pattern[0, 0, 0]
    tensor([0.5000, 0.5000, 0.0000])

    Source: Peters, Niculae & Martins 2019, section 3, algorithms 1 and 2; in attention: Correia, Niculae & Martins
    2019, section 3.
    """

    alpha: float = 1.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", constant("Entmax", "alpha", self.alpha, "give float(alpha)"))
        if isinstance(self.alpha, str) or not self.alpha >= 1 or math.isinf(self.alpha):
            raise ValueError(
                f"alpha={self.alpha!r} is out of range: entmax takes a finite alpha of at least 1 (1 = softmax, "
                "2 = sparsemax); for all weight on the largest score use Softmax(temperature=0)."
            )

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        if self.alpha == 1:
            return torch.softmax(masked_scores, dim=-1)
        if self.alpha == 2:
            return sparsemax(masked_scores)
        return _Entmax.apply(masked_scores, self.alpha)  # type: ignore[no-untyped-call]


class _Entmax(torch.autograd.Function):
    """Entmax with an analytic gradient: the search for the threshold is not differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, alpha: float) -> Tensor:
        return by_sorting(scores) if alpha == 1.5 else by_bisection(scores, alpha)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.alpha = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (weights,), (gradient,) = ctx.saved_tensors, gradients
        has_weight = weights > 0
        # The derivative of each weight with respect to its score, if the threshold were fixed. The threshold moves, so
        # that the weights still sum to 1; so the mean of the gradient, weighted by the slopes, is subtracted.
        slope = weights.masked_fill(~has_weight, 1.0) ** (2 - ctx.alpha) * has_weight
        mean = (slope * gradient).sum(dim=-1, keepdim=True) / slope.sum(dim=-1, keepdim=True)
        return slope * (gradient - mean), None


def by_sorting(scores: Rows) -> Rows:
    """Return the weights of alpha-entmax with alpha 3/2: max(scores / 2 - τ, 0)², with the τ for which they sum to 1.

    If k keys have weights above 0, they are those with the k largest halved scores x, and τ solves Σ (x - τ)² = 1:

        τ = mean(x) - sqrt((1 - Σ (x - mean(x))²) / k)

    k is the largest number for which this τ is at most the k-th largest x.
    """
    # A key whose halved score is 1 or more below the largest gets weight 0. Clamping at -2 changes no weight and keeps
    # -∞ out of the sums.
    half = ((scores - scores.amax(dim=-1, keepdim=True)) / 2).clamp_min(-2.0)
    ordered = half.sort(dim=-1, descending=True).values
    wide = ordered.to(widest_type(scores.device))  # float32 would lose digits of sums over thousands of keys
    count = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    mean = wide.cumsum(dim=-1) / count
    squares = (wide**2).cumsum(dim=-1) - count * mean**2  # Σ (x - mean(x))²
    # entry k - 1 is the τ for k keys
    candidates = mean - ((1 - squares) / count).clamp_min(0.0).sqrt()
    k = (candidates <= ordered).sum(dim=-1, keepdim=True).clamp_min(1)  # without the minimum, 0 if a score is NaN
    tau = candidates.gather(-1, k - 1)
    return ((half - tau).clamp_min(0.0) ** 2).to(scores)


def by_bisection(scores: Rows, alpha: float) -> Rows:
    """Return the weights of alpha-entmax for any `alpha` above 1; its threshold is found by bisection.

    For alpha above 2, the derivative of a weight near 0 is very large, so that a rounding error in the threshold is a
    large error in the weight. The threshold is then computed in float64 if the device supports float64.
    """
    gain = alpha - 1
    wide = scores.to(widest_type(scores.device)) if alpha > 2 else scores
    below = wide - wide.amax(dim=-1, keepdim=True)  # the largest score of each row becomes 0

    def weights(threshold: Tensor) -> Tensor:
        # The weights are max(1 + gain · (below - threshold), 0) ^ (1 / gain). The power is computed by logarithms:
        # log1p(-1) = -∞ gives weight 0.
        return (((below - threshold) * gain).clamp_min(-1.0).log1p() / gain).exp()

    # The threshold is between 0 and `highest`: at 0 the largest weight is 1, so the weights sum to at least 1; at
    # `highest` no weight is larger than 1 / keys, so they sum to at most 1.
    highest = (1 - scores.shape[-1] ** -gain) / gain
    low = torch.zeros_like(below[..., :1])
    high = low + highest
    precision = torch.finfo(below.dtype).eps
    for _ in range(math.ceil(math.log2(max(highest / precision, 1)))):
        middle = (low + high) / 2
        too_much = weights(middle).sum(dim=-1, keepdim=True) >= 1
        low, high = torch.where(too_much, middle, low), torch.where(too_much, high, middle)
    unscaled = weights((low + high) / 2)
    return (unscaled / unscaled.sum(dim=-1, keepdim=True)).to(scores)
