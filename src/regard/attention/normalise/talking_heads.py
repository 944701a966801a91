"""Talking heads: the scores of each head, and then its weights, are mixtures of those of all heads.

scores_h  = Σ_g before_hg · scores_g
weights_h = Σ_g after_hg · normalise(scores)_g
"""

from itertools import count

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.softmax import Softmax
from regard.attention.stages import parameters_in, replace_parameters


class TalkingHeads(nn.Module, Normaliser):
    """A normaliser between two learned mixtures over heads: of the scores before it, of the weights after it.

    The weights of a head may be negative, and a row sums to the sum of the head's row of `after`. Both mixtures start
    as the identity, so that heads do not mix. A key that the mask bars in a head stays barred in that head; its score
    counts as 0 in the mixtures of the other heads.

    The weights of one head depend on the scores of all heads, so computing one head costs as much as computing all.
    Mixed weights are not a distribution, so their pattern has no entropy. For one key a head, normalise by `Hard(…)`.

    Args:
        normalise: the normaliser that turns the mixed scores into weights.

    Raises:
        ValueError: n_heads below 1.

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

    across_heads = True
    signed = True

    def __init__(self, n_heads: int, normalise: Normaliser = Softmax()) -> None:  # noqa: B008 (frozen)
        super().__init__()
        if n_heads < 1:
            raise ValueError(f"n_heads={n_heads}; heads that talk must be at least 1.")
        self.n_heads, self.normalise = n_heads, normalise
        self.before = nn.Parameter(torch.empty(n_heads, n_heads))
        self.after = nn.Parameter(torch.empty(n_heads, n_heads))
        for number, parameter in enumerate(parameters_in(normalise)):
            self.register_parameter(f"held_{number}", parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set both mixtures to the identity."""
        nn.init.eye_(self.before)
        nn.init.eye_(self.after)

    def forward(self, scores: Rows, keep: Bool[Tensor, "#batch #heads #queries #keys"] | None, tile: Tile) -> Rows:
        """Return the mixed weights of whole rows of all heads."""
        assert scores.shape[1] == self.n_heads, "the weights of one head need the scores of all"
        visible = scores if keep is None else scores.masked_fill(~keep, 0.0)
        normalise = replace_parameters(self.normalise, (getattr(self, f"held_{number}") for number in count()))
        weights = mixed(normalise(mixed(visible, self.before), keep, tile), self.after)
        return weights if keep is None else weights.masked_fill(~keep, 0.0)

    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return the weights of scores that are mixed already."""
        return self.normalise.weights(masked, tile)

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless the grid has as many heads as the mixtures."""
        if self.n_heads != grid.heads:
            raise ValueError(
                f"TalkingHeads mixes {self.n_heads} heads and query has {grid.heads} heads; "
                f"build it with TalkingHeads({grid.heads})."
            )
        self.normalise.check(grid)

    def extra_repr(self) -> str:
        """Return the arguments that repr shows."""
        inner = "" if repr(self.normalise) == "Softmax()" else f", normalise={self.normalise!r}"
        return f"n_heads={self.n_heads}{inner}"


def mixed(rows: Rows, mixture: Float[Tensor, "heads heads"]) -> Rows:
    """Return each head's mixture of the rows of all heads."""
    return torch.einsum("bgqk,hg->bhqk", rows, mixture.to(rows))
