"""Biases: numbers added to the scores, given by a rule instead of a queries × keys tensor.

A rule is asked for one tile of the grid at a time. As for masks, queries are taken to be the *last* tokens: query i
stands at position i + keys - queries, unless `offset` says where the first one stands. Each rule has a file of its own:
`alibi.py`, `relative_bias.py`.
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
        """The numbers of one tile, computed in this type; they broadcast over the tile."""

    def check(self, grid: Grid) -> None:  # noqa: B027 (a rule may fit every grid)
        """Raise ValueError, naming what would fit, if this bias does not fit the grid."""

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Rounded(Bias):
    """A rule's numbers in the type and place of a query: what a kernel of that type adds, so what a pattern shows."""

    bias: Bias
    dtype: torch.dtype
    device: torch.device

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        """The rule's numbers, computed in float32 or better and rounded once."""
        wide = torch.promote_types(self.dtype, torch.float32)
        return self.bias(tile, self.device, wide).to(self.dtype)

    def check(self, grid: Grid) -> None:
        """The rule itself must fit."""
        self.bias.check(grid)

    def __repr__(self) -> str:
        return repr(self.bias)


def unrounded(bias: Tensor | Bias | None) -> Tensor | Bias | None:
    """The rule of a bias itself, without what rounds it."""
    return bias.bias if isinstance(bias, Rounded) else bias


def distances(tile: Tile, device: torch.device, offset: int | None = None) -> Int[Tensor, "1 1 queries keys"]:
    """How far each key of a tile stands after each query; negative where it stands before it."""
    first = tile.grid.offset if offset is None else offset
    return tile.along(3, device) - tile.along(2, device) - first
