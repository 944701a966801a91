"""What every score is: a rule that gives the scores of any tile of the grid from its queries and keys."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.attention.grid import Grid, Tile


@runtime_checkable
class Score(Protocol):
    """What `attend` asks of a score. It knows its tile because some scores depend on positions too."""

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_key"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from its own queries and keys."""

    def check(self, grid: Grid) -> None:
        """Raise ValueError if this score does not fit the grid."""
