"""The base class of scores: a score computes the scores of any tile of the grid from the tile's queries and keys."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile


class Score(ABC):
    """How well queries match keys. A score is called with the tile because some scores depend on positions too."""

    @abstractmethod
    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the scores of a tile, given the queries and keys of the tile."""

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """Return False where the score itself bars a key, as a bias of -∞ does; None if it bars no key."""
        return None

    def check(self, grid: Grid) -> None:  # noqa: B027 (most scores fit every grid)
        """Raise ValueError, naming what would fit, if this score does not fit the grid."""

    def check_widths(self, d_query: int, d_key: int) -> None:
        """Raise ValueError, naming what would fit, if this score cannot take queries and keys of these widths."""
        if d_query != d_key:
            raise ValueError(
                f"query has width {d_query} and key has width {d_key}; "
                "their product needs one width, so project them to the same d_key."
            )

    def of_type(self, query: Tensor) -> "Score":
        """Return this score with its tensors converted to the type and device of the query."""
        return self


class DotScore(Score):
    """A score that is the dot product of transformed queries and keys, so that the fused kernel computes it."""

    @abstractmethod
    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "_ key_heads keys width"]]:
        """Return transformed queries and keys whose dot products are the scores, for all keys of the grid."""

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the scores of a tile, given the queries and keys of the tile."""
        query, key = self.as_dot(query, key)
        return query @ key.mT


def check_sizes(**sizes: int) -> None:
    """Raise ValueError if a size that a score is built with is below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} is too small; it must be at least 1.")


def check_built_for(score: Score, built: tuple[int, int], widths: tuple[int, int]) -> None:
    """Raise ValueError if queries and keys have other widths than a score with parameters was built for."""
    if built != widths:
        raise ValueError(
            f"query has width {widths[0]} and key has width {widths[1]}; this {type(score).__name__} was built for "
            f"queries of width {built[0]} and keys of width {built[1]}, and its parameters fit no others."
        )
