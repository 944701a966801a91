"""Several documents packed into one sequence."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.checks import check_whole_tensor
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.ranges import Ranges


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Documents(Mask):
    """Several documents packed into one sequence: a query attends to the keys of its own document.

    Args:
        ids: the document that each key belongs to; any whole numbers.
    """

    ids: Int[Tensor, "*batch tokens"]

    def __post_init__(self) -> None:
        check_whole_tensor("Documents", "ids", self.ids)

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """Return True where query and key belong to the same document."""
        of_keys = self.ids.to(device)
        of_keys = of_keys[None, None, None] if of_keys.ndim == 1 else of_keys[:, None, None]
        of_queries = of_keys[..., tile.grid.offset :].mT
        return tile.select(of_queries) == tile.select(of_keys)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """Return the keys of each query's document, or None if a document is in several pieces."""
        ids, position = self.ids.to(device).reshape(-1, grid.keys), torch.arange(grid.keys, device=device)
        begins = (ids != F.pad(ids, (1, -1))).index_fill(1, position[:1], True)
        in_order = ids.sort(dim=1).values
        n_pieces, n_documents = begins.sum(dim=1), 1 + (in_order[:, 1:] != in_order[:, :-1]).sum(dim=1)
        if bool((n_pieces > n_documents).any()):
            return None
        start = (position * begins).cummax(dim=1).values
        stop = torch.searchsorted(start, start, right=True)
        queries = slice(grid.offset, None)
        return Ranges.of(start[:, None, queries], stop[:, None, queries], grid, device)

    def check(self, grid: Grid) -> None:
        """Raise ValueError unless every key has a document and every query is one of the tokens."""
        fits = self.ids.ndim == 1 or (self.ids.ndim == 2 and len(self.ids) in (1, grid.batch))
        if not fits or self.ids.shape[-1] != grid.keys:
            raise ValueError(
                f"Documents was given ids of shape {list(self.ids.shape)}; with {grid} it takes [{grid.keys}] "
                f"or [{grid.batch}, {grid.keys}], the document of each key."
            )
        if grid.queries > grid.keys:
            raise ValueError(
                f"Documents takes the queries to be the last of the tokens, but there are {grid.queries} queries "
                f"and only {grid.keys} keys; use Keep with a boolean tensor instead."
            )
