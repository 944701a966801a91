"""The base class of normalisers, which turn the scores of each query over all keys into attention weights.

A query that may attend to no key gets the weight 0 on every key. All scores of such a query are -∞, which softmax would
turn into NaN, so the scores are first replaced by 0. NaN in the weights therefore always comes from NaN or infinity in
the input, and is never hidden.
"""

import math

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import Described

Rows = Float[Tensor, "batch heads queries keys"]
"""One number for each query of a tile (block of the weights) and for every key of the sequence."""


class Normaliser(Described):
    """The base class of normalisers: a rule that turns the scores of a query over all keys into its weights.

    A subclass defines `weights`; an `nn.Module` defines `forward` in place of `__call__`, and then needs no `weights`.
    """

    across_heads = False
    """True if the weights of one head depend on the scores of other heads; all heads are then computed together."""

    signed = False
    """True if weights may be negative; the weights of a query are then not a distribution and have no entropy."""

    def __call__(self, scores: Rows, keep: Bool[Tensor, "#batch #heads #queries #keys"] | None, tile: Tile) -> Rows:
        """Return the attention weights of the queries in a tile (block of the weights) on all keys; 0 on masked keys.

        Args:
            scores: the scores before the mask.
            keep: the mask: True where a query may attend to a key; None = True everywhere.
            tile: the indices of the batch items, heads and queries of the scores; it contains all keys.
        """
        if scores.shape[-1] == 0:
            return scores
        if keep is None:
            return self.weights(scores, tile)
        has_no_key = ~keep.any(dim=-1, keepdim=True)
        masked_scores = scores.masked_fill(~keep, -math.inf).masked_fill(has_no_key, 0.0)
        return self.weights(masked_scores, tile).masked_fill(~keep, 0.0)

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        """Return the attention weights of the queries in a tile on all keys.

        Args:
            masked_scores: the scores, -∞ for masked keys, whose weights are then set to 0. Every query has at least one
                score above -∞. A learned factor of `masked_scores` would have gradient NaN, because of -∞.
            tile: the indices of the batch items, heads and queries of the scores; it contains all keys.
        """
        raise TypeError(
            f"{type(self).__name__} has no method weights(masked_scores, tile), which turns scores into weights."
        )

    def check(self, grid: Grid) -> None:
        """Raise ValueError if the normaliser does not fit the batch items, heads, queries and keys of `grid`."""
