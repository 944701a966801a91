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


class Bias(ABC):
    """A rule that gives, for every query and key, a number to be added to their score."""

    @abstractmethod
    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """Return the number of every query and key of `tile`, computed in `dtype`; it broadcasts to `tile.shape`."""

    def check(self, grid: Grid) -> None:  # noqa: B027 (a rule may fit every grid)
        """Raise ValueError, with what would fit, unless this bias fits the heads, queries and keys of `grid`."""

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Rounded(Bias):
    """A bias rounded to the data type of the query, so that kernels and patterns add the same numbers."""

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
    """Return the bias that a `Rounded` contains, and any other bias as it is."""
    return bias.bias if isinstance(bias, Rounded) else bias


def distances(tile: Tile, device: torch.device, offset: int | None = None) -> Int[Tensor, "1 1 queries keys"]:
    """Return the position of each key of a tile minus the position of each query.

    Args:
        offset: position of the first query of the grid among the keys; None = keys - queries.
    """
    first = tile.grid.offset if offset is None else offset
    return tile.along(3, device) - tile.along(2, device) - first
