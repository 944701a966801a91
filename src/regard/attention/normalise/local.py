"""Local attention: a network predicts one key position from each query, and the query attends to the keys near it.

    centre  = length · sigmoid(v · tanh(W query))                                        PredictedCentre
    weights = softmax(scores) · exp(-(key's position - centre)² / (2 (reach / 2)²))      Local

Keys farther than `reach` from the centre have weight 0. For local attention around the query's own position (local-m in
the paper), use the mask `Window`.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.softmax import Softmax
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Local(EqualFields, Normaliser):
    """Softmax over the keys near a centre, times a Gaussian around the centre; the weights of a query sum to at most 1.

    If the mask allows no key near the centre of a query, all weights of the query are 0.

    Args:
        centre: for each query, the key position of its centre, counted from 0; fractions are allowed.
        reach: a distance in keys, D in the paper. Keys farther than this from the centre have weight 0; reach / 2 is
            the standard deviation of the Gaussian.

    Raises:
        ValueError: reach is not above 0 and finite; or, raised by `attend`, the centres do not broadcast to
            [batch heads queries].

    >>> import torch
    >>> from regard import Local, attend
    >>> zeros = torch.zeros(1, 1, 5, 1)
    >>> attend(zeros, zeros, zeros, normalise=Local(torch.full((1, 1, 5), 3.0), reach=1.0)).pattern[0, 0, 0]
    tensor([0.0000, 0.0000, 0.0451, 0.3333, 0.0451])

    Source: Luong, Pham & Manning 2015, equation 10.
    """

    centre: Float[Tensor, "batch heads queries"]
    reach: float

    def __post_init__(self) -> None:
        if not 0 < self.reach < math.inf:
            raise ValueError(
                f"reach={self.reach} is the largest distance of a key from the centre; it must be above 0 and finite."
            )

    def weights(self, masked_scores: Rows, tile: Tile) -> Rows:
        distance = tile.key_positions(masked_scores.device) - tile.select(self.centre[..., None]).to(masked_scores)
        near = (distance.abs() <= self.reach) & (masked_scores != -math.inf)
        weights = Softmax()(masked_scores, near, tile)  # only near keys; all 0 if a query has none
        return weights * torch.exp(-(distance**2) / (2 * (self.reach / 2) ** 2))

    def check(self, grid: Grid) -> None:
        if self.centre.ndim != 3 or not grid.admits(self.centre[..., None]):
            raise ValueError(
                f"centre of shape {list(self.centre.shape)} for {grid}; "
                f"give one for each query, {list(grid.shape[:3])}; axes of size 1 are broadcast."
            )


class PredictedCentre(nn.Module):
    """A small network that predicts, from each query, the key position around which the query attends.

        centre = length · sigmoid(v · tanh(W query))

    `length` is the number of keys; v and W are learned. `Local` takes the predicted positions as its centres.

    Args:
        d_query: width of the queries.
        d_hidden: width of the hidden layer; None = d_query.

    >>> import torch
    >>> from regard import Local, PredictedCentre, attend
    >>> predict = PredictedCentre(d_query=4)
    >>> query, key, value = torch.randn(3, 1, 2, 7, 4).unbind()
    >>> attend(query, key, value, normalise=Local(predict(query, 7), reach=2.0)).context.shape
    torch.Size([1, 2, 7, 4])

    Source: Luong, Pham & Manning 2015, equation 9.
    """

    def __init__(self, d_query: int, d_hidden: int | None = None) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_query, d_query if d_hidden is None else d_hidden, bias=False)
        self.place = nn.Linear(self.hidden.out_features, 1, bias=False)

    def forward(
        self, query: Float[Tensor, "batch heads queries d_query"], length: int | Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch heads queries"]:
        """Return the key position, from 0 to `length`, around which each query attends.

        Args:
            length: the number of keys: an int for all batch items, or a tensor with one number for each.
        """
        lengths = length[:, None, None] if isinstance(length, Tensor) else length
        return lengths * torch.sigmoid(self.place(torch.tanh(self.hidden(query)))[..., 0])
