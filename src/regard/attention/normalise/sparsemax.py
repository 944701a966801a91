"""Sparsemax: the Euclidean projection of the scores onto the probability simplex; low scores get weight exactly 0."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows


@dataclass(frozen=True, slots=True, repr=False)
class Sparsemax(Normaliser):
    """Weights that sum to 1 and are exactly 0 for low scores: the scores projected onto the probability simplex.

        weights = max(scores - threshold, 0)         with the threshold for which the weights sum to 1

    The probability simplex is the set of all weights that are at least 0 and sum to 1. The projection of the scores is
    the point of this set with the smallest Euclidean distance from the scores.

    A key whose score is 1 or more below the largest always has weight 0. Sparsemax is `Entmax(alpha=2.0)`.

    >>> import torch
    >>> from regard import Sparsemax, attend
    >>> scores = torch.tensor([1.0, 0.5, -1.0])[None, None, None]  # the keys, so that a query of 1 has these scores
    >>> pattern = attend(torch.ones(1, 1, 1, 1), scores.mT, scores.mT, normalise=Sparsemax()).pattern
    >>> pattern[0, 0, 0]
    tensor([0.7500, 0.2500, 0.0000])

    Source: Martins & Astudillo 2016, section 2, algorithm 1.
    """

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        return sparsemax(masked_scores)


def sparsemax(scores: Rows) -> Rows:
    """Return the Euclidean projection of each row of scores onto the probability simplex.

    The support (the keys with weight above 0) is found by sorting. On the support the weights are linear in the scores,
    so that autograd computes the exact gradient.
    """
    below = scores - scores.amax(dim=-1, keepdim=True).detach()
    support = support_of(below.detach())
    threshold = (below.masked_fill(~support, 0.0).sum(dim=-1, keepdim=True) - 1) / support.sum(dim=-1, keepdim=True)
    return (below - threshold).masked_fill(~support, 0.0).clamp_min(0.0)


def support_of(below: Rows) -> Bool[torch.Tensor, "batch heads queries keys"]:
    """Return True for the keys with weight above 0, given the scores minus the largest score of their row."""
    # A key whose score is 1 or more below the largest gets weight 0. Clamping at -2 changes no weight and keeps -∞ out
    # of the sums.
    ordered = below.clamp_min(-2.0).sort(dim=-1, descending=True).values
    count = torch.arange(1, below.shape[-1] + 1, device=below.device)
    # the k-th largest score z is in the support if 1 + k · z is above the sum of the k largest scores (algorithm 1)
    is_in_support = 1 + count * ordered > ordered.cumsum(dim=-1)
    size = is_in_support.sum(dim=-1, keepdim=True).clamp_min(1)  # without the minimum, 0 if a score is NaN
    smallest = ordered.gather(-1, size - 1)
    return ~(below < smallest)  # not `below >= smallest`: NaN must give True, so that the weights show it
