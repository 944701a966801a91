"""The base class of biases: numbers added to the scores, given by a rule instead of a queries × keys tensor.

A rule computes one tile of the grid at a time. As for masks, the queries are the *last* tokens: query i stands at
position i + keys - queries, unless `offset` is the position of the first query.
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
        """Return the numbers of a tile, computed in this type and shaped so that they broadcast over the tile."""

    def check(self, grid: Grid) -> None:  # noqa: B027 (a rule may fit every grid)
        """Raise ValueError, naming what would fit, if this bias does not fit the grid."""

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Rounded(Bias):
    """A bias rounded to the type of the query, as a kernel of that type adds it and a pattern shows it."""

    bias: Bias
    dtype: torch.dtype
    device: torch.device

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """Return the rule's numbers, computed in float32 or better and rounded once."""
        wide = torch.promote_types(self.dtype, torch.float32)
        return self.bias(tile, self.device, wide).to(self.dtype)

    def check(self, grid: Grid) -> None:
        """Raise ValueError if the rule does not fit the grid."""
        self.bias.check(grid)

    def __repr__(self) -> str:
        return repr(self.bias)


def unrounded(bias: Tensor | Bias | None) -> Tensor | Bias | None:
    """Return the bias without the `Rounded` around it."""
    return bias.bias if isinstance(bias, Rounded) else bias


def distances(tile: Tile, device: torch.device, offset: int | None = None) -> Int[Tensor, "1 1 queries keys"]:
    """Return the position of each key of a tile minus the position of each query."""
    first = tile.grid.offset if offset is None else offset
    return tile.along(3, device) - tile.along(2, device) - first
