"""A mask for several documents packed into one sequence."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.checks import check_integer_tensor
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.ranges import Ranges
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Documents(EqualFields, Mask):
    """Several documents packed into one sequence: a query attends to the keys of its own document.

    Args:
        ids: an integer tensor [keys] or [batch keys]: for each key, the number of its document. Keys of the same
            document have the same number.

    Raises:
        TypeError: ids is not a tensor of integers.
        ValueError: raised by `attend` if ids does not have one number for each key, or if there are more queries than
            keys, since the queries must be the last of the tokens.
    """

    ids: Int[Tensor, "*batch tokens"]

    def __post_init__(self) -> None:
        check_integer_tensor("Documents", "ids", self.ids)

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        ids = self.ids.to(device)
        key_ids = ids[None, None, None] if ids.ndim == 1 else ids[:, None, None]  # [batch 1 1 keys]
        query_ids = key_ids[..., tile.grid.offset :].mT  # [batch 1 queries 1]: the queries are the last tokens
        return tile.select(query_ids) == tile.select(key_ids)

    def ranges(self, grid: Grid, device: torch.device) -> Ranges | None:
        """Return one range of keys for each query, or None if the keys of a document are not consecutive."""
        ids = self.ids.to(device, torch.int64).reshape(-1, grid.keys)  # torch cannot subtract uint16 numbers
        position = torch.arange(grid.keys, device=device)
        is_start = ids.diff(dim=1, prepend=ids[:, :1] - 1) != 0  # True at the first key of each run of equal ids
        n_runs = is_start.sum(dim=1)
        n_documents = 1 + (ids.sort(dim=1).values.diff(dim=1) != 0).sum(dim=1)  # the number of different ids
        if bool((n_runs > n_documents).any()):
            return None
        start = (
            (position * is_start).cummax(dim=1).values
        )  # for each key, the latest start of a run: that of its own run
        stop = torch.searchsorted(start, start, right=True)  # the first key whose run starts later
        queries = slice(grid.offset, None)
        return Ranges.of(start[:, None, queries], stop[:, None, queries], grid, device)

    def check(self, grid: Grid) -> None:
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
