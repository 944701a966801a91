"""The score and the mask of a FlexAttention call, which are functions of one query and one key, as regard's own.

Source: Dong et al. 2024, "Flex Attention: a programming model for generating optimized attention kernels", section 3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.grid.grid import Tile
from regard.attention.masks.mask import Kept, Mask
from regard.attention.scores.score import Score


@dataclass(frozen=True, slots=True, eq=False)
class FlexScore(Score):
    """A scaled dot product that FlexAttention's `score_mod` changes.

        scores = score_mod(scale · query · key, batch item, head, query position, key position, *buffers)

    Attributes:
        buffers: the tensors that `score_mod` reads besides its first five arguments.
    """

    score_mod: Callable[..., Tensor]
    buffers: tuple[Any, ...]
    scale: float

    def __call__(
        self,
        query: Float[Tensor, "batch heads queries d_key"],
        key: Float[Tensor, "batch heads keys d_key"],
        tile: Tile,
    ) -> Float[Tensor, "batch heads queries keys"]:
        return self.changed(query @ key.mT * self.scale, tile)

    def keep(self, tile: Tile) -> Bool[Tensor, "batch heads queries keys"]:
        """Return False where `score_mod` makes a score of 0 into -∞, as masks written as a `score_mod` do."""
        return self.changed(torch.zeros(tile.shape), tile) != -torch.inf

    def changed(self, scores: Float[Tensor, "batch heads queries keys"], tile: Tile) -> Tensor:
        """Return what `score_mod` makes of the scores of a tile."""
        mod = over_tile(self.score_mod, scored=True, n_buffers=len(self.buffers))
        return mod(scores, *indices(tile, scores.device), *self.buffers)


@dataclass(frozen=True, slots=True, eq=False)
class FlexMask(Mask):
    """The mask that FlexAttention's `mask_mod` makes; `buffers` are the tensors that it reads besides the indices."""

    mask_mod: Callable[..., Tensor]
    buffers: tuple[Any, ...]

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        mod = over_tile(self.mask_mod, scored=False, n_buffers=len(self.buffers))
        return mod(*indices(tile, device), *self.buffers)


def indices(tile: Tile, device: torch.device) -> list[Tensor]:
    """Return the indices of a tile's batch items, heads, queries and keys, each as a tensor of one axis."""
    return [tile.along(axis, device).flatten() for axis in range(4)]


def over_tile(mod: Callable[..., Tensor], scored: bool, n_buffers: int) -> Callable[..., Tensor]:
    """Return a function of one query and one key as a function of all batch items, heads, queries and keys of a tile.

    Args:
        scored: whether the first argument is the score, of shape [batch heads queries keys].
    """
    for axis in (3, 2, 1, 0):
        along = [0 if other == axis else None for other in range(4)]
        mod = torch.vmap(mod, in_dims=((0,) if scored else ()) + (*along,) + (None,) * n_buffers)
    return mod
