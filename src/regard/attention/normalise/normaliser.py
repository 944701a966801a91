"""What every normaliser is: a rule that turns whole rows of scores into weights.

A query that sees no key has weights 0. Its row is set aside before it is normalised, and nothing is ever mended after,
so that a NaN in the input still shows.
"""

import math
from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import describe

Rows = Float[Tensor, "batch heads queries keys"]
"""Each query of a tile over all of the grid's keys."""


class Normaliser(ABC):
    """From the scores of one query over all keys to its weights."""

    across_heads = False
    """Whether the weights of one head follow from the scores of all heads, which are then asked for together."""

    signed = False
    """Whether weights may be negative, so that a row is no distribution and has no entropy."""

    def __call__(self, scores: Rows, keep: Bool[Tensor, "#batch #heads #queries #keys"] | None, tile: Tile) -> Rows:
        """The weights of whole rows: 0 where keep is False, and in the rows of queries that see no key."""
        if scores.shape[-1] == 0:
            return scores
        if keep is None:
            return self.weights(scores, tile)
        blind = ~keep.any(dim=-1, keepdim=True)
        masked = scores.masked_fill(~keep, -math.inf).masked_fill(blind, 0.0)
        return self.weights(masked, tile).masked_fill(blind, 0.0)

    @abstractmethod
    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """The weights of rows in which at least one score is above -∞; a key with score -∞ gets weight 0."""

    def check(self, grid: Grid) -> None:  # noqa: B027 (most normalisers fit every grid)
        """Raise ValueError, naming what would fit, if this normaliser does not fit the grid."""

    def __repr__(self) -> str:
        return describe(self)
