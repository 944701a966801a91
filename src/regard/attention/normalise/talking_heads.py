"""Talking heads: learned linear combinations mix the scores of all heads, and then the weights of all heads.

mixed_h   = Σ_g before_hg · scores_g
weights_h = Σ_g after_hg · normalise(mixed)_g
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.softmax import Softmax
from regard.attention.stages import field_parameters, with_parameters


class TalkingHeads(nn.Module, Normaliser):
    """Mix the scores of all heads by a learned matrix, normalise them, and mix the weights by another matrix.

    Both matrices (`before` and `after`, [heads heads]) are initialised to the identity, which mixes nothing. A
    key that the mask forbids in one head gets weight 0 in this head. When the scores of all heads are mixed, its score
    in this head counts as 0.

    Mixed weights may be negative and need not sum to 1, so they have no entropy. The weights of one head depend on the
    scores of all heads, so computing one head costs as much as computing all heads.

    Args:
        n_heads: the number of heads.
        normalise: the normaliser that turns the mixed scores into weights.

    Raises:
        ValueError: n_heads is below 1; or, raised by `attend`, n_heads is not the number of heads of the query.

    >>> from regard import TalkingHeads, attend
    >>> talking = TalkingHeads(n_heads=2)
    >>> _ = talking.after.data.copy_(torch.tensor([[0.0, 1.0], [0.5, 0.5]]))
    >>> query = torch.tensor([[[[0.0]], [[4.0]]]])                        # two heads, each with one query
    >>> key = torch.tensor([[[[0.0], [1.0]], [[0.0], [1.0]]]])
    >>> attend(query, key, key, normalise=talking).pattern[0, :, 0].detach()
    tensor([[0.0180, 0.9820],
            [0.2590, 0.7410]])

    Source: Shazeer et al. 2020, "Talking-Heads Attention", section 3.
    """

    across_heads = True  # the weights of a head depend on the scores of all heads
    signed = True  # weights may be negative

    def __init__(self, n_heads: int, normalise: Normaliser = Softmax()) -> None:  # noqa: B008 (frozen, so safe to share)
        super().__init__()
        if n_heads < 1:
            raise ValueError(f"n_heads={n_heads} is too small; it must be at least 1.")
        self.n_heads, self.normalise = n_heads, normalise
        self.before = nn.Parameter(torch.empty(n_heads, n_heads))
        self.after = nn.Parameter(torch.empty(n_heads, n_heads))
        # registers the parameters inside the normaliser (see stages.py); saved models have this name
        self.held_parameters = field_parameters(normalise)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set both matrices to the identity."""
        nn.init.eye_(self.before)
        nn.init.eye_(self.after)

    def forward(self, scores: Rows, keep: Bool[Tensor, "#batch #heads #queries #keys"] | None, tile: Tile) -> Rows:
        """Return the weights; this replaces `Normaliser.__call__`, because nn.Module calls `forward`."""
        assert scores.shape[1] == self.n_heads, "the weights of one head need the scores of all"
        without_masked = scores if keep is None else scores.masked_fill(~keep, 0.0)
        (normalise,) = with_parameters(self.held_parameters, self.normalise)
        weights = mixed(normalise(mixed(without_masked, self.before), keep, tile), self.after)
        return weights if keep is None else weights.masked_fill(~keep, 0.0)

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        """Return the weights before they are mixed over heads, given scores that are already mixed over heads.

        `forward` does not call this; every normaliser must have it.
        """
        return self.normalise.weights(masked_scores, tile)

    def check(self, grid: Grid) -> None:
        if self.n_heads != grid.heads:
            raise ValueError(
                f"TalkingHeads mixes {self.n_heads} heads and query has {grid.heads} heads; "
                f"build it with TalkingHeads({grid.heads})."
            )
        self.normalise.check(grid)

    def extra_repr(self) -> str:
        inner = "" if self.normalise == Softmax() else f", normalise={self.normalise!r}"
        return f"n_heads={self.n_heads}{inner}"


def mixed(rows: Rows, matrix: Float[Tensor, "heads heads"]) -> Rows:
    """Return scores or weights mixed over heads: head h of the result is Σ_g matrix[h, g] · rows[:, g]."""
    return torch.einsum("bgqk,hg->bhqk", rows, matrix.to(rows))
