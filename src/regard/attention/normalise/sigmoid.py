"""Sigmoid: the weight of a key depends on its own score only, so keys do not compete.

weights = 1 / (1 + exp(-(scores + bias)))
"""

import math
from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows


@dataclass(frozen=True, slots=True, repr=False)
class Sigmoid(Normaliser):
    """A weight between 0 and 1 for each key by itself; a row sums to anything from 0 to the number of its keys.

    Args:
        bias: added to all scores. None = -log(number of keys that the query sees), so that a row of scores 0 sums to
            nearly 1, whatever its length.

    Raises:
        ValueError: a bias that is not finite.

    Departure: the paper's bias is -log(length) for every query. The number of keys that a query sees is the same
    without a mask, and a masked key then changes nothing; for the paper's bias under a mask give
    bias=-math.log(length).

    >>> import torch
    >>> from regard import Sigmoid, attend
    >>> zeros = torch.zeros(1, 1, 3, 1)
    >>> attend(zeros, zeros, zeros, normalise=Sigmoid()).pattern[0, 0, 0]
    tensor([0.2500, 0.2500, 0.2500])

    Source: Ramapuram et al. 2024 (Theory, analysis and best practices for sigmoid self-attention), section 2.
    """

    bias: float | None = None

    def __post_init__(self) -> None:
        if self.bias is not None and not math.isfinite(self.bias):
            raise ValueError(
                f"bias={self.bias} is added to every score, so it must be finite; "
                "None takes -log(keys that the query sees)."
            )

    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return the sigmoid of each score plus the bias."""
        if self.bias is not None:
            return torch.sigmoid(masked + self.bias)
        seen = (masked != -math.inf).sum(dim=-1, keepdim=True)
        return torch.sigmoid(masked - seen.to(masked).log())
