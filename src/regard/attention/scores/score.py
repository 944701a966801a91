"""The base class of scores, which are computed for one block of queries × keys at a time."""

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import Described

Query = Float[Tensor, "batch heads queries d_query"]
Key = Float[Tensor, "batch heads keys d_key"]
Scores = Float[Tensor, "batch heads queries keys"]


class Score(Described, ABC):
    """The base class of scores: functions that compute how well each query matches each key, before the mask."""

    @abstractmethod
    def __call__(self, query: Query, key: Key, tile: Tile) -> Scores:
        """Return the score of every query with every key, before the mask.

        A score depends on its own query and key and on no other key, because a tile may contain a part of the keys.

        Args:
            query, key: the queries and keys of the tile only.
            tile: the block of the attention weights that is computed, for scores that depend on positions or heads.
        """

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """Return a boolean mask of a tile: False where the score masks a key, as a bias of -∞ does; None = all True."""
        return None

    def check(self, grid: Grid) -> None:
        """Raise ValueError if this score cannot be used for the numbers of heads, queries and keys in `grid`."""

    def check_widths(self, d_query: int, d_key: int) -> None:
        """Raise ValueError if the score does not support queries of width `d_query` with keys of width `d_key`."""
        if d_query != d_key:
            raise ValueError(
                f"query has width {d_query} and key has width {d_key}; "
                "their product needs one width, so project them to the same d_key."
            )

    def of_type(self, query: Tensor) -> "Score":
        """Return this score, or a copy whose tensors have the data type and device of `query`."""
        return self


class DotScore(Score):
    """The base class of scores that are dot products of transformed queries and keys: fast kernels can compute them."""

    @abstractmethod
    def as_dot(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "_ key_heads keys width"]]:
        """Return transformed queries and keys, whose dot products are the scores.

        The arguments are all queries and keys of a call of `attend`, or those of one tile (block of the weights).
        """

    def __call__(self, query: Query, key: Key, tile: Tile) -> Scores:
        query, key = self.as_dot(query, key)
        return query @ key.mT


def check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} is too small; it must be at least 1.")


def check_built_for(score: Score, built: tuple[int, int], widths: tuple[int, int]) -> None:
    if built != widths:
        raise ValueError(
            f"query has width {widths[0]} and key has width {widths[1]}; this {type(score).__name__} was built for "
            f"queries of width {built[0]} and keys of width {built[1]}, and its parameters fit no others."
        )
