"""Local attention around a predicted position: each query predicts one position and reads the keys near it.

    centre  = length · sigmoid(v · tanh(W query))                                        PredictedCentre
    weights = softmax(scores) · exp(-(key's position - centre)² / (2 (reach / 2)²))      Local

The softmax goes over the keys that are at most `reach` from the centre. Local attention around the query's own
position (local-m) is a mask, `Window`.

Source: Luong, Pham & Manning 2015, section 3.2, equations 9 and 10.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.grid.grid import Grid, Tile
from regard.attention.normalise.normaliser import Normaliser, Rows
from regard.attention.normalise.softmax import Softmax


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Local(Normaliser):
    """Softmax over the keys near a centre, times a Gaussian around it; a row sums to 1 or less.

    A query that sees no key near its centre has weights 0.

    Args:
        centre: the position of each query's centre among the keys, counted from 0; fractions are allowed.
        reach: D in the paper, the largest distance from the centre at which keys are read; the Gaussian has half of it
            as standard deviation.

    Raises:
        ValueError: a reach that is not above 0 and finite.

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
                f"reach={self.reach} is how far from its centre a query reads, so it must be above 0 and finite."
            )

    def weights(self, masked: Rows, tile: Tile) -> Rows:
        """Return softmax over the keys near each row's centre, times the Gaussian."""
        distance = tile.along(3, masked.device) - tile.select(self.centre[..., None]).to(masked)
        near = (distance.abs() <= self.reach) & (masked != -math.inf)  # and not (>), so that a NaN stays one
        return Softmax()(masked, near, tile) * torch.exp(-2 * (distance / self.reach) ** 2)

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless there is one centre for each query."""
        if self.centre.ndim != 3 or not grid.admits(self.centre[..., None]):
            raise ValueError(
                f"centre of shape {list(self.centre.shape)} for {grid}; "
                f"give one for each query, {list(grid.shape[:3])}; axes of size 1 serve all."
            )


class PredictedCentre(nn.Module):
    """A small network that predicts, from each query, the position it reads around.

    >>> import torch
    >>> from regard import Local, PredictedCentre, attend
    >>> predict = PredictedCentre(d_query=4)
    >>> query, key, value = torch.randn(3, 1, 2, 7, 4).unbind()
    >>> attend(query, key, value, normalise=Local(predict(query, 7), reach=2.0)).context.shape
    torch.Size([1, 2, 7, 4])

    Source: Luong, Pham & Manning 2015, equation 9.
    """

    def __init__(self, d_query: int, d_hidden: int | None = None) -> None:
        """d_hidden None = d_query."""
        super().__init__()
        self.hidden = nn.Linear(d_query, d_query if d_hidden is None else d_hidden, bias=False)
        self.place = nn.Linear(self.hidden.out_features, 1, bias=False)

    def forward(
        self, query: Float[Tensor, "batch heads queries d_query"], length: int | Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch heads queries"]:
        """Return the centre of each query, between 0 and the number of keys, which may differ between batch items."""
        lengths = length[:, None, None] if isinstance(length, Tensor) else length
        return lengths * torch.sigmoid(self.place(torch.tanh(self.hidden(query)))[..., 0])
