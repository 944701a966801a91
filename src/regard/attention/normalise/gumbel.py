"""Gumbel-softmax: a nearly hard, random choice that gradients pass through.

weights = softmax((scores + g) / temperature)         g from the standard Gumbel distribution, one for each weight
"""

import math
from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Tile
from regard.attention.normalise.noise import check_seed, gumbel
from regard.attention.normalise.normaliser import Normaliser, Rows


@dataclass(frozen=True, slots=True, repr=False)
class GumbelSoftmax(Normaliser):
    """Random weights that sum to 1; the largest falls on each key with the probability that softmax gives it.

    The noise is a function of the seed and of each weight's place in the grid, so that the pattern shows exactly the
    weights that the context was computed with. For fresh noise give another seed: one for each step of training or
    decoding and for each layer. The hard form is `Hard(StraightThrough(GumbelSoftmax(…)))`.

    Args:
        seed: from 0 to 2⁶³ - 1.
        temperature: above 0. Small = nearly one key, and gradients of high variance; large = nearly uniform.

    Raises:
        ValueError: another seed or temperature.

    >>> import torch
    >>> from regard import GumbelSoftmax, attend
    >>> zeros = torch.zeros(1, 1, 5, 1)
    >>> pattern = attend(zeros, zeros, zeros, normalise=GumbelSoftmax(seed=7, temperature=0.1)).pattern
    >>> torch.equal(pattern[0, 0, 3], pattern.dense()[0, 0, 3])
    True

    Source: Jang, Gu & Poole 2017, equation 2; Maddison, Mnih & Teh 2017, section 3.2.
    """

    seed: int
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature={self.temperature} divides the noisy scores, so it must be above 0 and finite; "
                f"for all weight on one key use Hard(Sampled(seed={self.seed}))."
            )

    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return softmax of the scores plus noise."""
        return torch.softmax((masked + gumbel(self.seed, tile, masked)) / self.temperature, dim=-1)
