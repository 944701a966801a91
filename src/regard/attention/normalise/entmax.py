"""Entmax: the family between softmax (alpha 1) and sparsemax (alpha 2) and beyond.

    weights = [1 + (α - 1)(scores - threshold)]₊ ^ (1 / (α - 1))

with the one threshold for which they sum to 1. As α → 1 this is exp(scores - threshold), and the threshold the
log-sum-exp. For α = 3/2 sorting gives the threshold exactly; for others bisection does, to the last digit of the type.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.sparsemax import sparsemax
from regard.attention.precision import widest_type


@dataclass(frozen=True, slots=True, repr=False)
class Entmax(Normaliser):
    """Weights that sum to 1, of which the smallest are exactly 0; the larger alpha is, the more weights are 0.

    Args:
        alpha: at least 1. 1 is softmax, 2 is sparsemax.

    Raises:
        ValueError: an alpha below 1, infinite or NaN.

    >>> import torch
    >>> from regard import Entmax, attend
    >>> scores = torch.tensor([1.0, 1.0, -1.0])[None, None, None]
    >>> pattern = attend(torch.ones(1, 1, 1, 1), scores.mT, scores.mT, normalise=Entmax(alpha=1.5)).pattern
    >>> pattern[0, 0, 0]
    tensor([0.5000, 0.5000, 0.0000])

    Source: Peters, Niculae & Martins 2019, section 3, algorithms 1 and 2; in attention: Correia, Niculae & Martins
    2019, section 3.
    """

    alpha: float = 1.5

    def __post_init__(self) -> None:
        if not self.alpha >= 1 or math.isinf(self.alpha):
            raise ValueError(
                f"alpha={self.alpha} is none of entmax, which goes from 1 (softmax) over 2 (sparsemax) upwards; "
                "for all weight on the largest score use Softmax(temperature=0)."
            )

    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return entmax of each row."""
        if self.alpha == 1:
            return torch.softmax(masked, dim=-1)
        if self.alpha == 2:
            return sparsemax(masked)
        return _Entmax.apply(masked, self.alpha)  # type: ignore[no-untyped-call]


class _Entmax(torch.autograd.Function):
    """Entmax with the gradient of the equation that its weights solve, whichever algorithm found them."""

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
        slope = weights.masked_fill(~has_weight, 1.0) ** (2 - ctx.alpha) * has_weight
        mean = (slope * gradient).sum(dim=-1, keepdim=True) / slope.sum(dim=-1, keepdim=True)
        return slope * (gradient - mean), None


def by_sorting(scores: Rows) -> Rows:
    """Return entmax of alpha 3/2; its threshold solves a quadratic equation of the largest scores' mean and spread."""
    # halves of the scores; more than 1 below the largest there is no weight, so -∞ need not enter the sums
    half = ((scores - scores.amax(dim=-1, keepdim=True)) / 2).clamp_min(-2.0)
    strongest = half.sort(dim=-1, descending=True).values
    wide = strongest.to(widest_type(scores.device))  # float32 would lose digits of sums over thousands of keys
    count = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    mean = wide.cumsum(dim=-1) / count
    spread = (wide**2).cumsum(dim=-1) - count * mean**2
    thresholds = mean - ((1 - spread) / count).clamp_min(0.0).sqrt()
    size = (thresholds <= strongest).sum(dim=-1, keepdim=True)
    threshold = thresholds.gather(-1, size.clamp_min(1) - 1)
    return ((half - threshold).clamp_min(0.0) ** 2).to(scores)


def by_bisection(scores: Rows, alpha: float) -> Rows:
    """Return entmax of any alpha above 1; its threshold is found by bisection to the last digit of the type.

    Above alpha 2 the weights rise from 0 with infinite slope, so that an error in the last digit of the threshold is
    a large error in a small weight; there the threshold is computed in float64 if the device has float64.
    """
    gain = alpha - 1
    wide = scores.to(widest_type(scores.device)) if alpha > 2 else scores
    below = wide - wide.amax(dim=-1, keepdim=True)

    def weights(threshold: Tensor) -> Tensor:
        return (((below - threshold) * gain).clamp_min(-1.0).log1p() / gain).exp()

    widest = (1 - scores.shape[-1] ** -gain) / gain  # the largest weight is then 1 / keys, as for equal scores
    low = torch.zeros_like(below[..., :1])
    high = low + widest
    precision = torch.finfo(below.dtype).eps
    for _ in range(math.ceil(math.log2(max(widest / precision, 1)))):
        middle = (low + high) / 2
        too_much = weights(middle).sum(dim=-1, keepdim=True) >= 1
        low, high = torch.where(too_much, middle, low), torch.where(too_much, high, middle)
    unscaled = weights((low + high) / 2)
    return (unscaled / unscaled.sum(dim=-1, keepdim=True)).to(scores)
