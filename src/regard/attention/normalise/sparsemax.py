"""Sparsemax: the point of the simplex that is nearest to the scores; keys with low scores get exactly 0.

weights = max(scores - threshold, 0)         with the one threshold for which they sum to 1
"""

from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows


@dataclass(frozen=True, slots=True, repr=False)
class Sparsemax(Normaliser):
    """Weights by Euclidean projection onto the simplex: they sum to 1, and keys with low scores get exactly 0.

    A key whose score is 1 or more below the largest never gets weight. Equals `Entmax(alpha=2.0)`.

    >>> import torch
    >>> from regard import Sparsemax, attend
    >>> scores = torch.tensor([1.0, 0.5, -1.0])[None, None, None]
    >>> pattern = attend(torch.ones(1, 1, 1, 1), scores.mT, scores.mT, normalise=Sparsemax()).pattern
    >>> pattern[0, 0, 0]
    tensor([0.7500, 0.2500, 0.0000])

    Source: Martins & Astudillo 2016, section 2, algorithm 1.
    """

    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return the projection of each row onto the simplex."""
        return sparsemax(masked)


def sparsemax(scores: Rows) -> Rows:
    """Return the projection of each row onto the simplex.

    Sorting finds the support, the keys with weight. On the support the weights are linear in the scores, so that
    autograd computes the exact gradient.
    """
    below = scores - scores.amax(dim=-1, keepdim=True).detach()
    support = support_of(below.detach())
    threshold = (below.masked_fill(~support, 0.0).sum(dim=-1, keepdim=True) - 1) / support.sum(dim=-1, keepdim=True)
    # ~(<) and not (>=), so that a NaN stays one
    return (below - threshold).masked_fill(~support, 0.0).clamp_min(0.0)


def support_of(below: Rows) -> torch.Tensor:
    """Return True for the keys with weight, given scores whose largest is 0."""
    strongest = below.clamp_min(-2.0).sort(dim=-1, descending=True).values  # below -1 there is no weight
    count = torch.arange(1, below.shape[-1] + 1, device=below.device)
    size = (1 + count * strongest > strongest.cumsum(dim=-1)).sum(dim=-1, keepdim=True)
    weakest = strongest.gather(-1, size.clamp_min(1) - 1)
    return ~(below < weakest)
