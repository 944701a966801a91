"""The base class of normalisers, which turn the scores of each query over all keys into attention weights.

A query that may attend to no key has weights 0. Its scores are replaced before they are normalised, instead of
replacing NaN in the weights, so that a NaN in the input is never hidden.
"""

import math
from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import describe

Rows = Float[Tensor, "batch heads queries keys"]
"""Scores or weights: one number for each query of a tile and each key of the call of `attend`."""


class Normaliser(ABC):
    """The base class of normalisers: a rule that turns the scores of a query over all keys into its weights.

    A new normaliser only has to define `weights`.
    """

    across_heads = False
    """Whether the weights of one head depend on the scores of all heads; then all heads are computed together."""

    signed = False
    """Whether weights may be negative, so that a row is not a distribution and has no entropy."""

    def __call__(self, scores: Rows, keep: Bool[Tensor, "#batch #heads #queries #keys"] | None, tile: Tile) -> Rows:
        """Return the weight of each query of a tile on each key of the call; weights are 0 where keep is False.

        Args:
            scores: the scores before the mask.
            keep: the mask: True where a query may attend to a key; None = True everywhere.
            tile: the batch items, heads and queries that the scores belong to, with all keys.
        """
        if scores.shape[-1] == 0:
            return scores
        if keep is None:
            return self.weights(scores, tile)
        blind = ~keep.any(dim=-1, keepdim=True)
        masked = scores.masked_fill(~keep, -math.inf).masked_fill(blind, 0.0)
        return self.weights(masked, tile).masked_fill(blind, 0.0)

    @abstractmethod
    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return the weight of each query of a tile on each key of the call.

        Args:
            masked: the scores, -∞ for keys that the query may not attend to, whose weight must be 0. Every query has at
                least one score above -∞.
            tile: the batch items, heads and queries that the scores belong to, with all keys.
        """

    def check(self, grid: Grid) -> None:  # noqa: B027 (most normalisers fit every grid)
        """Raise ValueError, saying what would fit, if the normaliser does not fit the sizes in `grid`."""

    def __repr__(self) -> str:
        return describe(self)
