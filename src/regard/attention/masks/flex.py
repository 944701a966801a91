"""Conversion of masks for FlexAttention, PyTorch's compiler of attention.

`attend` calls the method `keep` of a mask for a whole block of queries × keys (a `Tile`), and FlexAttention calls it
for one query and one key (a `SinglePair`):

    allows = mask_mod(Causal() & Documents(ids), Grid(batch=2, heads=8, queries=4096, keys=4096))
    block_mask = create_block_mask(allows, 2, 8, 4096, 4096, device="cpu")

Source: Dong et al. 2024, "Flex Attention: a programming model for generating optimized attention kernels", section 3.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.keep import as_mask
from regard.attention.masks.mask import Mask, keep_of_tile
from regard.attention.stages import on_device

Index = Int[Tensor, ""]
MaskMod = Callable[[Index, Index, Index, Index], Bool[Tensor, ""]]
"""A function (batch index, head index, query index, key index) -> True if the query may attend to the key."""


@dataclass(frozen=True, slots=True, eq=False)
class SinglePair(Tile):
    """A `Tile` (block of the attention weights) of only one query and one key.

    Attributes:
        indices: of the batch item, head, query and key, as scalar tensors from FlexAttention. The fields of `Tile` are
            those of the whole grid; they are not used, because both methods of this class use `indices`.
    """

    indices: tuple[Index, Index, Index, Index]

    def along(self, axis: int, device: torch.device) -> Index:
        return self.indices[axis]

    def select(self, tensor: Tensor) -> Tensor:
        """Return the entry of a tensor that belongs to this query and key; an axis of size 1 has the same for all."""
        last_indices = self.indices[4 - tensor.ndim :]
        indices = [index for index, size in zip(last_indices, tensor.shape, strict=True) if size != 1]
        return tensor.squeeze()[indices] if indices else tensor.squeeze()

    def check(self, tensor: Tensor, source: object) -> None:
        if tensor.ndim:
            raise ValueError(
                f"{type(source).__name__} returned a tensor of shape {list(tensor.shape)} for one query and one key, "
                "but FlexAttention needs a scalar; compute it from tile.query_positions, tile.key_positions, "
                "tile.along and tile.select, by elementwise operations."
            )


def mask_mod(mask: Mask | Tensor, grid: Grid, device: torch.device | str = "cpu") -> MaskMod:
    """Convert a mask to a function (b, h, q_idx, kv_idx) -> bool, as PyTorch's `create_block_mask` takes it.

    The function is valid for this grid only: the positions of the queries depend on the numbers of queries and keys.

    Args:
        mask: a mask, or a boolean tensor that broadcasts to [batch heads queries keys].
        grid: the numbers of batch items, heads, queries and keys.
        device: the device on which FlexAttention calls the function.

    Raises:
        ValueError: the mask does not fit the grid.
        TypeError: `mask` is neither a mask nor a boolean tensor.

    >>> from torch.nn.attention.flex_attention import create_mask
    >>> from regard.attention.masks import Window
    >>> create_mask(mask_mod(Window(before=1, after=0), Grid(1, 1, 2, 4)), 1, 1, 2, 4, device="cpu").int()[0, 0]
    tensor([[0, 1, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    device = torch.device(device)
    rule = as_mask(mask)
    if rule is None:
        raise TypeError("mask is None; without a mask, call flex_attention without its argument block_mask.")
    rule.check(grid)
    rule, axes = on_device(rule, device), grid.whole().axes
    return lambda batch, head, query, key: keep_of_tile(
        rule, SinglePair(grid, *axes, (batch, head, query, key)), device
    )
