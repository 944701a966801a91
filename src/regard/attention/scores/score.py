"""The base class of scores, which are called for one tile of the queries × keys matrix at a time."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile


class Score(ABC):
    """The base class of scores: a function that says how well each query matches each key, before mask and softmax."""

    @abstractmethod
    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Return the score of every query with every key, before the mask.

        Args:
            tile: the batch items, heads and positions that these queries and keys have in the call of `attend`.
        """

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """Return a boolean mask that is False where the score itself masks a key, as a bias of -∞ does.

        None = the score masks no key.

        Args:
            tile: the batch items, heads, queries and keys that the mask is for.
        """
        return None

    def check(self, grid: Grid) -> None:  # noqa: B027 (most scores fit every grid)
        """Raise ValueError, saying what would fit, if the score does not fit the numbers of heads, queries and keys."""

    def check_widths(self, d_query: int, d_key: int) -> None:
        """Raise ValueError, saying what would fit, if the score does not take queries and keys of these widths."""
        if d_query != d_key:
            raise ValueError(
                f"query has width {d_query} and key has width {d_key}; "
                "their product needs one width, so project them to the same d_key."
            )

    def of_type(self, query: Tensor) -> "Score":
        """Return this score with its tensors converted to the data type and device of the query."""
        return self


class DotScore(Score):
    """The base class of scores that are dot products of transformed queries and keys.

    The fused kernel can compute such scores.
    """

    @abstractmethod
    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "_ key_heads keys width"]]:
        """Return transformed queries and keys, whose dot products are the scores.

        The arguments are all queries and keys of a call of `attend`, or those of one tile.
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
    """Raise ValueError, with the name and the value, if one of the sizes is below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} is too small; it must be at least 1.")


def check_built_for(score: Score, built: tuple[int, int], widths: tuple[int, int]) -> None:
    """Raise ValueError unless the widths of query and key are those that the parameters of a score have.

    Args:
        built: the widths of queries and keys that the score was built for.
        widths: the widths of the query and key that were given.
    """
    if built != widths:
        raise ValueError(
            f"query has width {widths[0]} and key has width {widths[1]}; this {type(score).__name__} was built for "
            f"queries of width {built[0]} and keys of width {built[1]}, and its parameters fit no others."
        )
