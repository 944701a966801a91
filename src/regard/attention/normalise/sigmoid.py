"""Sigmoid: the weight of a key depends on its own score only, so keys do not compete."""

import math
from dataclasses import dataclass

import torch

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows


@dataclass(frozen=True, slots=True, repr=False)
class Sigmoid(Normaliser):
    """A weight between 0 and 1 for each key, computed from its score alone; the weights of a query need not sum to 1.

        weights = 1 / (1 + exp(-(scores + bias)))

    Args:
        bias: added to all scores. None = -log(n), where n is the number of keys to which the query may attend: the more
            keys, the smaller the weights. If all scores are 0, the weights then sum to n / (n + 1).

    Raises:
        ValueError: bias is not finite.

    Departure: the paper's bias is -log(length) for every query, where length also counts masked keys. The default here
    does not count masked keys, so that masking a key is the same as removing it. Without a mask, both biases are equal.
    For the paper's bias under a mask, use bias=-math.log(length).

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
                "None = -log(number of keys that the query may attend to)."
            )

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        if self.bias is not None:
            return torch.sigmoid(masked_scores + self.bias)
        n_allowed = (masked_scores != -math.inf).sum(dim=-1, keepdim=True)
        return torch.sigmoid(masked_scores - n_allowed.to(masked_scores).log())
