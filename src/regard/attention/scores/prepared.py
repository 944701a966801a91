"""Keys projected once and read at every step, as a decoder does that looks at one memory again and again.

    scores = of_prepared(query, prepare(key))

A score with a matrix of its own for the keys is `Preparable`: `prepare` is the part that needs no query. `Prepared` is
the same score for keys that are prepared already.
"""

from abc import abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.scores.score import Score, check_built_for


class Preparable(Score):
    """A score that begins by projecting each key, whatever the query."""

    d_query: int
    d_hidden: int

    @abstractmethod
    def prepare(self, key: Float[Tensor, "batch heads keys d_key"]) -> Float[Tensor, "batch heads keys d_hidden"]:
        """The keys, projected."""

    @abstractmethod
    def of_prepared(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_hidden"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from keys that are prepared."""

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from its own queries and keys."""
        return self.of_prepared(query, self.prepare(key), tile)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared(Score):
    """A score whose keys are prepared already.

    >>> import torch
    >>> from regard import Additive, attend
    >>> states, memory, score = torch.randn(1, 1, 3, 5), torch.randn(1, 1, 7, 11), Additive(5, 11, 13)
    >>> key = score.prepare(memory)
    >>> seen = attend(states, key, memory, score=Prepared(score))
    >>> torch.allclose(seen.context, attend(states, memory, memory, score=score).context, atol=1e-6)
    True
    """

    score: Preparable

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_hidden"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from its own queries and prepared keys."""
        return self.score.of_prepared(query, key, tile)

    def check(self, grid: Grid) -> None:
        """The score itself must fit."""
        self.score.check(grid)

    def check_widths(self, d_query: int, d_key: int) -> None:
        """Queries must have the score's width, keys that of its hidden layer."""
        check_built_for(self, (self.score.d_query, self.score.d_hidden), (d_query, d_key))
