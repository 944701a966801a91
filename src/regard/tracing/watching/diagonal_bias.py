"""The bias of attention calls that are joined into one call, such as those of the windows of a picture."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile, as_indices, entries_at
from regard.attention.scores.biases.bias import Bias, BiasNumbers
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DiagonalBias(EqualFields, Bias):
    """The bias of a sequence that was made by joining the items of a batch, such as the windows of a picture.

    The bias of each item is a block on the diagonal; between tokens of different items, the bias is 0. Each token of
    the sequence has a position in an item. `blocks` are [items heads queries keys], with the queries and keys of one
    item; each axis may have size 1 and broadcast.
    """

    blocks: Float[Tensor, "items _ _ _"]
    item: Int[Tensor, " tokens"]
    position: Int[Tensor, " tokens"]

    def __call__(self, tile: Tile, device: torch.device, dtype: torch.dtype = torch.float32) -> BiasNumbers:
        item, position = self.item.to(device), self.position.to(device)
        blocks = self.blocks.to(device, dtype)
        n_items, n_heads, n_queries, _ = blocks.shape
        query, item_size = as_indices(tile.queries, device), int(position.max()) + 1
        # index % size: in an axis of size 1, index 0 is used for every item or position
        rows = blocks[item[query] % n_items, :, position[query] % n_queries]  # [queries heads keys]
        rows = rows.movedim(1, 0)
        if n_heads > 1:
            rows = rows[as_indices(tile.heads, device)]
        # token_at[item, position]: index in the sequence, where each pair (item, position) occurs once
        token_at = (item * item_size + position).argsort().view(-1, item_size)
        keys_of_query = token_at[item[query]]  # [queries keys]: the keys of the query's item
        numbers = rows.new_zeros(*rows.shape[:2], tile.grid.keys)
        numbers.scatter_(2, keys_of_query.expand(len(rows), -1, -1), rows.expand(-1, -1, item_size))
        return entries_at(numbers[None], 3, tile.keys)

    def check(self, grid: Grid) -> None:
        """Raise ValueError if this bias does not fit an attention call of the sizes in `grid`.

        The call must have one sequence with as many queries as keys. Each pair of an item (such as a window) and a
        position in it must belong to exactly one token.
        """
        n_items, n_heads, n_queries, n_keys = self.blocks.shape
        fits = self.item.shape == self.position.shape == (grid.keys,) and grid.queries == grid.keys
        if fits and grid.keys:
            item_size = int(self.position.max()) + 1
            tokens = (self.item * item_size + self.position).sort().values
            fits = bool((tokens == torch.arange(grid.keys, device=tokens.device)).all())
            fits = fits and n_items in (1, grid.keys // item_size)
            fits = fits and n_queries in (1, item_size) and n_keys in (1, item_size)
        if not fits or n_heads not in (1, grid.heads) or grid.batch != 1:
            raise ValueError(f"a bias of blocks {list(self.blocks.shape)} does not fit {grid}.")
