"""Softmax plus one: softmax whose weights may sum to nearly 0, so that a head can attend to nothing."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from regard.attention.grid.grid import Tile
from regard.attention.normalise.normaliser import Normaliser, Rows


@dataclass(frozen=True, slots=True, repr=False)
class SoftmaxPlusOne(Normaliser):
    """Softmax with 1 added to the sum of exponentials: if all scores of a query are low, its weights sum to nearly 0.

        weights = exp(scores) / (1 + Σ exp(scores))

    The weights are those of `Softmax(sinks=torch.zeros(n_heads))`.

    >>> import torch
    >>> from regard import SoftmaxPlusOne, attend
    >>> zeros = torch.zeros(1, 1, 3, 1)
    >>> attend(zeros, zeros, zeros, normalise=SoftmaxPlusOne()).pattern[0, 0, 0]
    tensor([0.2500, 0.2500, 0.2500])

    Source: Miller 2023 (Attention is off by one).
    """

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        return torch.softmax(F.pad(masked_scores, (0, 1)), dim=-1)[..., :-1]
