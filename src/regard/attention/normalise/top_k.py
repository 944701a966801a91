"""Top-k: softmax over the n largest scores of each query; all other keys get weight exactly 0.

weights = softmax(scores)         over the keys whose score is at least the n-th largest
"""

import math
from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Tile, is_integer
from regard.attention.normalise.normaliser import Normaliser, Rows


@dataclass(frozen=True, slots=True, repr=False)
class TopK(Normaliser):
    """Softmax over the `n` largest scores of each query, or over all scores if the query may attend to fewer keys.

    All scores equal to the n-th largest are kept, so that the order of the keys does not matter. The gradient is that
    of a softmax over the kept keys. If the n-th largest score differs from the next only by rounding, either of the two
    keys may be kept.

    Args:
        n: the number of largest scores that get weight; at least 1.

    Raises:
        ValueError: n is below 1.
        TypeError: n is not an integer.

    >>> import torch
    >>> from regard import TopK, attend
    >>> scores = torch.tensor([2.0, 0.0, 2.0, 1.0])[None, None, None]
    >>> attend(torch.ones(1, 1, 1, 1), scores.mT, scores.mT, normalise=TopK(2)).pattern[0, 0, 0]
    tensor([0.5000, 0.0000, 0.5000, 0.0000])

    Source: Zhao et al. 2019 (Explicit sparse transformer), section 3; Gupta et al. 2021 (Memory-efficient
    transformers via top-k attention).
    """

    n: int

    def __post_init__(self) -> None:
        if not is_integer(self.n):
            raise TypeError(f"n={self.n!r} is not a number of keys; it takes a whole number, such as TopK(8).")
        if self.n < 1:
            raise ValueError(f"n={self.n} is how many of the largest scores get weight, so it must be at least 1.")

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        smallest = masked_scores.detach().topk(min(self.n, masked_scores.shape[-1]), dim=-1).values[..., -1:]
        return torch.softmax(masked_scores.masked_fill(masked_scores < smallest, -math.inf), dim=-1)
