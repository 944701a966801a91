"""The base class of biases: rules that compute numbers to be added to the scores, for one tile (block) at a time.

As for masks, the queries are the *last* tokens: query i is at position i + keys - queries. With the argument `offset`,
query i is at position i + offset.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.representation import Described
from regard.attention.stages import EqualFields

BiasNumbers = Float[Tensor, "#batch #heads #queries #keys"]
"""The numbers to be added to the scores of a tile (block of the weights); they broadcast to the shape of the tile."""


class Bias(Described, ABC):
    """The base class of biases: a rule that returns, for every query and key, a number to be added to their score."""

    @abstractmethod
    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> BiasNumbers:
        """Return the numbers to be added to the scores of a tile (block of the attention weights).

        The numbers have the data type `dtype`, are on `device`, and broadcast to `tile.shape`.
        """

    def check(self, grid: Grid) -> None:
        """Raise ValueError if the bias does not fit the numbers of heads, queries and keys in `grid`."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Rounded(EqualFields, Bias):
    """A bias rounded to the data type of the query.

    PyTorch's kernels for the context require this data type. A `Pattern` recomputes the weights with the same numbers.
    """

    bias: Bias
    dtype: torch.dtype
    device: torch.device

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> BiasNumbers:
        """Return the numbers in `self.dtype` on `self.device`; the arguments `device` and `dtype` are ignored."""
        wide = torch.promote_types(self.dtype, torch.float32)
        numbers = self.bias(tile, self.device, wide)
        tile.check(numbers, self.bias)
        return numbers.to(self.dtype)

    def check(self, grid: Grid) -> None:
        self.bias.check(grid)

    def __repr__(self) -> str:
        return repr(self.bias)


def numbers_of_bias(
    bias: Tensor | Bias, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32
) -> BiasNumbers:
    """Return what a bias adds to the scores of a tile (block of weights); a tensor keeps its data type and device."""
    return bias(tile, device, dtype) if isinstance(bias, Bias) else tile.select(bias)


def unrounded(bias: Tensor | Bias | None) -> Tensor | Bias | None:
    """Return the bias inside a `Rounded`: kernels need to know its class, and round its numbers themselves."""
    return bias.bias if isinstance(bias, Rounded) else bias


def distances(tile: Tile, device: torch.device, offset: int | None = None) -> Int[Tensor, "1 1 queries keys"]:
    """Return, for each query and key of a tile (block of the weights), key position - query position.

    `offset` is the key position of query 0; None = keys - queries, since the queries are the last tokens.
    """
    return tile.key_positions(device) - tile.query_positions(device, offset)
