"""Normalisers: from the scores of one query to weights that say how much of each value it takes.

    weights = softmax(scores / temperature)         over the keys that the mask keeps

A query that sees no key has weights 0: its row is set aside before the softmax, so that a NaN in the input still shows.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid import Grid, Tile
from regard.attention.introduce import introduce

Rows = Float[Tensor, "batch heads queries keys"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Softmax:
    """Weights in proportion to the exponential of the scores; they sum to 1 for each query.

    Args:
        temperature: scores are divided by it. 0 = all weight on the largest score, ties share; large = nearly uniform.
        sinks: one extra score for each head that takes weight and gives no value, so that the rows sum to less than 1.

    Raises:
        ValueError: a negative temperature.

    Source: Vaswani et al. 2017, equation 1; temperature: Hinton, Vinyals & Dean 2015, equation 1; sinks: gpt-oss model
    card 2025, section 2.3.
    """

    temperature: float = 1.0
    sinks: Float[Tensor, " heads"] | None = None

    def __post_init__(self) -> None:
        if not self.temperature >= 0 or math.isinf(self.temperature):
            raise ValueError(
                f"temperature={self.temperature} divides the scores, so it must be 0 "
                "(all weight on the largest) or above."
            )

    def __call__(self, scores: Rows, keep: Bool[Tensor, "#batch #heads #queries #keys"] | None, tile: Tile) -> Rows:
        """The weights of whole rows: each query of the tile over all of the grid's keys."""
        n_keys = scores.shape[-1]
        if self.sinks is not None:
            sinks = tile.select(self.sinks[:, None, None]).to(scores).expand(*scores.shape[:-1], 1)
            if keep is not None:
                scores = scores.masked_fill(~keep, -math.inf)
            return self._weights(torch.cat([scores, sinks], dim=-1))[..., :n_keys]
        if keep is None:
            return self._weights(scores)
        blind = ~keep.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~keep, -math.inf).masked_fill(blind, 0.0)
        return self._weights(scores).masked_fill(blind, 0.0)

    def _weights(self, scores: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows keys"]:
        if scores.shape[-1] == 0:
            return scores
        if self.temperature == 0:
            largest = (scores == scores.amax(dim=-1, keepdim=True)).to(scores)
            return largest / largest.sum(dim=-1, keepdim=True)
        return torch.softmax(scores / self.temperature if self.temperature != 1 else scores, dim=-1)

    def check(self, grid: Grid) -> None:
        """Raise ValueError if there is not one sink for each head."""
        if self.sinks is not None and self.sinks.shape != (grid.heads,):
            raise ValueError(
                f"sinks of shape {list(self.sinks.shape)} with {grid.heads} heads; give one number for each head."
            )

    def __repr__(self) -> str:
        return introduce(self)
