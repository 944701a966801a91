"""The base class of biases: numbers added to the scores, given by a rule instead of a queries × keys tensor.

A rule is called for one tile of the attention matrix at a time, so that the matrix is never stored. As for masks, the
queries are the *last* tokens: query i stands at position i + keys - queries, unless `offset` gives the position of the
first query.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import describe

Biased = Float[Tensor, "#batch #heads #queries #keys"]
"""The numbers to be added to the scores of a tile; they broadcast over the tile."""


class Bias(ABC):
    """The base class of biases: a rule that gives, for every query and key, a number to be added to their score."""

    @abstractmethod
    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """Return, in `dtype`, the number to be added to the score of each query and key of a tile.

        The result broadcasts to `tile.shape`.

        Args:
            tile: the batch items, heads, queries and keys of the scores.
        """

    def check(self, grid: Grid) -> None:  # noqa: B027 (a rule may fit every grid)
        """Raise ValueError, saying what would fit, if the bias does not fit the numbers of heads, queries and keys."""

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Rounded(Bias):
    """Another bias, rounded to a data type (that of the query), so that kernels and patterns add the same numbers."""

    bias: Bias
    dtype: torch.dtype
    device: torch.device

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """Return the bias on `self.device`, computed in float32 at least and then rounded to `self.dtype`.

        The arguments `device` and `dtype` are ignored.
        """
        wide = torch.promote_types(self.dtype, torch.float32)
        return self.bias(tile, self.device, wide).to(self.dtype)

    def check(self, grid: Grid) -> None:
        self.bias.check(grid)

    def __repr__(self) -> str:
        return repr(self.bias)


def unrounded(bias: Tensor | Bias | None) -> Tensor | Bias | None:
    """Return the bias inside a `Rounded`; return any other bias, or None, unchanged."""
    return bias.bias if isinstance(bias, Rounded) else bias


def distances(tile: Tile, device: torch.device, offset: int | None = None) -> Int[Tensor, "1 1 queries keys"]:
    """Return, for each query and key of a tile, the key's position minus the query's position.

    Args:
        offset: the key position of query 0; None = keys - queries, since the queries are the last tokens.
    """
    first = tile.grid.offset if offset is None else offset
    return tile.along(3, device) - tile.along(2, device) - first
