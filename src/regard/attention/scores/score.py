"""What every score is: a rule that gives the scores of any tile of the grid from its queries and keys."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid import Grid, Tile


class Score(ABC):
    """How well queries match keys. A score knows its tile because some scores depend on positions too."""

    @abstractmethod
    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_key"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from its own queries and keys."""

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """False where the score itself bars a key, as a bias of -∞ does; None = nowhere."""
        return None

    def check(self, grid: Grid) -> None:  # noqa: B027 (most scores fit every grid)
        """Raise ValueError, naming what would fit, if this score does not fit the grid."""

    def of_type(self, query: Tensor) -> "Score":
        """The same score with its numbers in the type and place of the query."""
        return self
