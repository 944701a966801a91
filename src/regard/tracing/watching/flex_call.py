"""Converts a FlexAttention call to a `Call` of regard, with a `Score` and a `Mask`.

The functions `score_mod` and `mask_mod` of FlexAttention take the indices of one query and one key; the methods of
`Score` and `Mask` take a tile, a block of queries × keys.

Source: Dong et al. 2024, "Flex Attention: a programming model for generating optimized attention kernels", section 3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.grid.grid import Tile
from regard.attention.masks.mask import Kept, Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.score import Score


@dataclass(frozen=True, slots=True, eq=False)
class FlexScore(Score):
    """The score of a FlexAttention call: a scaled dot product, modified by the function `score_mod`.

        scores = score_mod(scale · query · key, batch item, head, query position, key position, *buffers)

    `buffers` are further tensors that are passed to `score_mod`.
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
        return self.modified(query @ key.mT * self.scale, tile)

    def keep(self, tile: Tile) -> Bool[Tensor, "batch heads queries keys"]:
        """Return False where `score_mod` turns a score of 0 into -∞: some models mask keys by it, not by `mask_mod`."""
        return self.modified(torch.zeros(tile.shape), tile) != -torch.inf

    def modified(self, scores: Float[Tensor, "batch heads queries keys"], tile: Tile) -> Tensor:
        mod = vectorised(self.score_mod, scored=True, n_buffers=len(self.buffers))
        return mod(scores, *indices(tile, scores.device), *self.buffers)


@dataclass(frozen=True, slots=True, eq=False)
class FlexMask(Mask):
    mask_mod: Callable[..., Tensor]
    buffers: tuple[Any, ...]

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        mod = vectorised(self.mask_mod, scored=False, n_buffers=len(self.buffers))
        return mod(*indices(tile, device), *self.buffers)


def flex_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: Any,
    score_buffers: tuple[Any, ...] = (),
    mask_buffers: tuple[Any, ...] = (),
) -> Call:
    """Return the `Call` for a FlexAttention call; the arguments are those of torch.ops.higher_order.flex_attention."""
    *_, mask_mod = block_mask
    score = FlexScore(score_mod, score_buffers, scale)
    return Call.of(query, key, value, score, FlexMask(mask_mod, mask_buffers), Softmax())


def indices(tile: Tile, device: torch.device) -> list[Tensor]:
    """Return the indices of the batch items, heads, queries and keys in `tile` (a block of weights), as 1-D tensors."""
    return [tile.along(axis, device).flatten() for axis in range(4)]


def vectorised(mod: Callable[..., Tensor], scored: bool, n_buffers: int) -> Callable[..., Tensor]:
    """Vectorise a `score_mod` (if `scored`) or a `mask_mod`, functions of a single batch item, head, query and key.

    The first argument of a `score_mod` is a score. The last `n_buffers` arguments are passed unchanged.
    """
    for axis in (3, 2, 1, 0):  # keys first, so that the result is [batch heads queries keys]
        of_score = (0,) if scored else ()
        of_indices = tuple([0 if other == axis else None for other in range(4)])
        of_buffers = (None,) * n_buffers
        mod = torch.vmap(mod, in_dims=of_score + of_indices + of_buffers)  # over one index, and the score with it
    return mod
