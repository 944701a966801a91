"""The base class of scores, which are called for one tile of the queries × keys matrix at a time."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile


class Score(ABC):
    """A function that says how well each query matches each key, before mask and softmax."""

    @abstractmethod
    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the score of every query with every key; `tile` gives their batch items, heads and positions."""

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """Return a mask that is False where the score itself masks a key, as a bias of -∞ does; None = no such key."""
        return None

    def check(self, grid: Grid) -> None:  # noqa: B027 (most scores fit every grid)
        """Raise ValueError, with what would fit, unless this score fits the heads, queries and keys of `grid`."""

    def check_widths(self, d_query: int, d_key: int) -> None:
        """Raise ValueError, with what would fit, if this score cannot take queries and keys of these widths."""
        if d_query != d_key:
            raise ValueError(
                f"query has width {d_query} and key has width {d_key}; "
                "their product needs one width, so project them to the same d_key."
            )

    def of_type(self, query: Tensor) -> "Score":
        """Return this score with its tensors converted to the data type and device of the query."""
        return self


class DotScore(Score):
    """A score that is the dot product of transformed queries and keys, so that the fused kernel can compute it."""

    @abstractmethod
    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "_ key_heads keys width"]]:
        """Return transformed queries and keys whose dot products are the scores.

        Called with all heads, queries and keys of a call, or, by `__call__`, with those of a tile.
        """

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        query, key = self.as_dot(query, key)
        return query @ key.mT


def check_sizes(**sizes: int) -> None:
    """Raise ValueError, with the name of the size, if a size is below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} is too small; it must be at least 1.")


def check_built_for(score: Score, built: tuple[int, int], widths: tuple[int, int]) -> None:
    """Raise ValueError unless the widths of query and key are the widths that the score was built for."""
    if built != widths:
        raise ValueError(
            f"query has width {widths[0]} and key has width {widths[1]}; this {type(score).__name__} was built for "
            f"queries of width {built[0]} and keys of width {built[1]}, and its parameters fit no others."
        )
