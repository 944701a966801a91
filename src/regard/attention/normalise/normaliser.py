"""The base class of normalisers: a normaliser turns whole rows of scores into weights.

A query that sees no key has weights 0. Its row is replaced before it is normalised, and no NaN is ever replaced, so
that a NaN in the input shows in the output.
"""

import math
from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import describe

Rows = Float[Tensor, "batch heads queries keys"]
"""Numbers of each query of a tile for all keys of the grid."""


class Normaliser(ABC):
    """A rule that turns the scores of a query over all keys into its weights."""

    across_heads = False
    """Whether the weights of one head depend on the scores of all heads, which are then computed together."""

    signed = False
    """Whether weights may be negative, so that a row is not a distribution and has no entropy."""

    def __call__(self, scores: Rows, keep: Bool[Tensor, "#batch #heads #queries #keys"] | None, tile: Tile) -> Rows:
        """Return the weights of whole rows: 0 where keep is False, and 0 in the rows of queries that see no key."""
        if scores.shape[-1] == 0:
            return scores
        if keep is None:
            return self.weights(scores, tile)
        blind = ~keep.any(dim=-1, keepdim=True)
        masked = scores.masked_fill(~keep, -math.inf).masked_fill(blind, 0.0)
        return self.weights(masked, tile).masked_fill(blind, 0.0)

    @abstractmethod
    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return the weights of rows in which at least one score is above -∞; a score of -∞ gives weight 0."""

    def check(self, grid: Grid) -> None:  # noqa: B027 (most normalisers fit every grid)
        """Raise ValueError, naming what would fit, if this normaliser does not fit the grid."""

    def __repr__(self) -> str:
        return describe(self)
