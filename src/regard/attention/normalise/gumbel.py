"""Gumbel-softmax: random weights that are nearly 1 on one key and nearly 0 on all others, with gradients."""

import math
from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Tile
from regard.attention.normalise.noise import check_seed, gumbel
from regard.attention.normalise.normaliser import Normaliser, Rows


@dataclass(frozen=True, slots=True, repr=False)
class GumbelSoftmax(Normaliser):
    """Random weights that sum to 1; softmax(scores) is the probability that a key gets the largest weight.

        weights = softmax((scores + g) / temperature)         g: a sample of the standard Gumbel distribution

    The noise g depends only on the seed and on the indices of batch item, head, query and key, so that a `Pattern`
    shows the weights that the context was computed with. The same seed always gives the same noise: use a new seed in
    each training or decoding step and in each layer. For weights of exactly 0 and 1, use
    `Hard(StraightThrough(GumbelSoftmax(…)))`.

    Args:
        seed: the seed of the noise, from 0 to 2⁶³ - 1.
        temperature: the divisor of the noisy scores, above 0. Small = nearly all weight on one key, but gradients of
            high variance; large = nearly uniform weights.

    Raises:
        ValueError: seed or temperature is outside these ranges.

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

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        return torch.softmax((masked_scores + gumbel(self.seed, tile, masked_scores)) / self.temperature, dim=-1)
