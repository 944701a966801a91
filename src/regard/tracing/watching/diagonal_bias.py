"""The bias of attention calls that are joined to one call, such as those of the windows of a picture."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.equality import EqualFields
from regard.attention.grid.grid import Grid, Tile, as_indices
from regard.attention.scores.biases.bias import Bias, Biased


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DiagonalBias(EqualFields, Bias):
    """The biases of the items of a batch that are joined to one sequence: a block for each item, 0 between items.

    Attributes:
        blocks: the bias of each item; heads, queries and keys may have size 1 and broadcast.
        item: for each token of the sequence, its item.
        position: for each token of the sequence, its position in its item.
    """

    blocks: Float[Tensor, "items _ _ _"]
    item: Int[Tensor, " tokens"]
    position: Int[Tensor, " tokens"]

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> Biased:
        item, position = self.item.to(device), self.position.to(device)
        n_items, heads, n_queries, n_keys = self.blocks.shape
        query, key = as_indices(tile.queries, device)[:, None], as_indices(tile.keys, device)
        # an axis of size 1 is read at index 0, whatever the token
        place = item[query] % n_items, slice(None), position[query] % n_queries, position[key] % n_keys
        numbers = self.blocks.to(device, dtype)[place].movedim(-1, 0)[None]
        if heads > 1:
            numbers = numbers[:, as_indices(tile.heads, device)]
        return numbers.masked_fill(item[query] != item[key], 0.0)

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless each token has an item, and a position in it, for which there is a bias."""
        n_items, heads, n_queries, n_keys = self.blocks.shape
        fits = self.item.shape == self.position.shape == (grid.keys,) and grid.queries == grid.keys
        sizes = (self.item, n_items), (self.position, n_queries), (self.position, n_keys)
        inside = fits and all(int(part.min()) >= 0 and (size == 1 or int(part.max()) < size) for part, size in sizes)
        if not inside or heads not in (1, grid.heads) or grid.batch != 1:
            raise ValueError(f"a bias of blocks {list(self.blocks.shape)} does not fit {grid}.")
