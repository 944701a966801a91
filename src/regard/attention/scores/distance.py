"""Distance scores: the nearer a key lies to the query, the higher its score.

scores = -scale · ‖query - key‖²
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Tile
from regard.attention.representation import describe
from regard.attention.scores.score import Score
from regard.attention.scores.tiling import in_tiles


@dataclass(frozen=True, slots=True, repr=False)
class Distance(Score):
    """The negative squared distance between query and key.

        scores = -scale · ‖query - key‖²

    The differences are computed number by number. As dot products, scale · (2 query · key - ‖query‖² - ‖key‖²), the
    scores would be computed faster, but would lose their digits where keys lie far from one another.

    >>> import torch
    >>> from regard import Distance, attend
    >>> query, key = torch.tensor([[[[3.0, 0.0]]]]), torch.tensor([[[[0.0, 4.0], [2.0, 0.0]]]])
    >>> attend(query, key, key, score=Distance()).pattern.scores(0, 0, 0)
    tensor([-25.,  -1.])

    Source: Kim, Papamakarios & Mnih 2021, L2 self-attention.
    """

    scale: float = 1.0

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_key"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the scores of a tile."""
        return -self.scale * in_tiles(squared_distances, query, key)

    def __repr__(self) -> str:
        return describe(self)


def squared_distances(
    query: Float[Tensor, "batch heads queries d_key"], key: Float[Tensor, "batch heads keys d_key"]
) -> Float[Tensor, "batch heads queries keys"]:
    """Return the squared distance of every query to every key; NaN where it overflows, as -∞ would bar the key."""
    squares = (query[..., :, None, :] - key[..., None, :, :]).square().sum(dim=-1)
    return squares + 0 * squares
