"""What every score is: a rule that gives the scores of any tile of the grid from its queries and keys."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile


class Score(ABC):
    """How well queries match keys. A score knows its tile because some scores depend on positions too."""

    @abstractmethod
    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from its own queries and keys."""

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """False where the score itself bars a key, as a bias of -∞ does; None = nowhere."""
        return None

    def check(self, grid: Grid) -> None:  # noqa: B027 (most scores fit every grid)
        """Raise ValueError, naming what would fit, if this score does not fit the grid."""

    def check_widths(self, d_query: int, d_key: int) -> None:
        """Raise ValueError, naming what would fit, if this score cannot match queries and keys of these widths."""
        if d_query != d_key:
            raise ValueError(
                f"query has width {d_query} and key has width {d_key}; "
                "their product needs one width, so project them to the same d_key."
            )

    def of_type(self, query: Tensor) -> "Score":
        """The same score with its numbers in the type and place of the query."""
        return self


class DotScore(Score):
    """A score that is the dot product of what queries and keys are turned into: the fused kernel computes it."""

    @abstractmethod
    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "_ key_heads keys width"]]:
        """What queries and keys are turned into: the scores are the products of these. Of all keys, not of a tile's."""

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The scores of one tile, from its own queries and keys."""
        query, key = self.as_dot(query, key)
        return query @ key.mT


def check_sizes(**sizes: int) -> None:
    """Raise ValueError if a size that a score is built with is below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} is too small; it must be at least 1.")


def check_built_for(score: Score, built: tuple[int, int], given: tuple[int, int]) -> None:
    """Raise ValueError if a score with parameters meets queries and keys of other widths than it was built for."""
    if built != given:
        raise ValueError(
            f"query has width {given[0]} and key has width {given[1]}; this {type(score).__name__} was built for "
            f"queries of width {built[0]} and keys of width {built[1]}, and its parameters fit no others."
        )
