"""Masks for FlexAttention, PyTorch's compiler of attention, which calls a mask for one query and one key at a time.

    allows = mask_mod(Causal() & Documents(ids), Grid(batch=2, heads=8, queries=4096, keys=4096))
    block_mask = create_block_mask(allows, 2, 8, 4096, 4096, device="cpu")

The rule of a mask is written once, in its method `keep`. `attend` calls `keep` with a whole tile of the grid;
FlexAttention calls it with the indices of one batch item, head, query and key.

Source: Dong et al. 2024, "Flex Attention: a programming model for generating optimized attention kernels", section 3.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.keep import as_mask
from regard.attention.masks.mask import Mask

Index = Int[Tensor, ""]
MaskMod = Callable[[Index, Index, Index, Index], Bool[Tensor, ""]]
"""A function of the indices of a batch item, a head, a query and a key: True if the query may attend to the key."""


@dataclass(frozen=True, slots=True, eq=False)
class Place(Tile):
    """One batch item, head, query and key, as a `Tile` that FlexAttention can compile.

    Attributes:
        at: the four indices, as the scalar tensors that FlexAttention passes.
    """

    at: tuple[Index, Index, Index, Index]

    def along(self, axis: int, device: torch.device) -> Index:
        """Return the index along one axis: 0 batch, 1 heads, 2 queries, 3 keys; the device is ignored."""
        return self.at[axis]

    def select(self, tensor: Tensor) -> Tensor:
        """Return the entry for this batch item, head, query and key of a tensor that broadcasts over the grid."""
        sized = zip(reversed(self.at), reversed(tensor.shape), strict=False)
        indices = [index for index, size in sized if size != 1][::-1]
        return tensor.squeeze()[indices] if indices else tensor.squeeze()


def mask_mod(mask: Mask | Tensor, grid: Grid, device: torch.device | str = "cpu") -> MaskMod:
    """Return a mask as the function (b, h, q_idx, kv_idx) -> bool that `create_block_mask` and `create_mask` take.

    The function is valid for this grid only: the positions of the queries depend on the numbers of queries and keys.

    Raises:
        ValueError: a mask that does not fit the grid.
        TypeError: mask is None, or neither a mask nor a boolean tensor.

    >>> from torch.nn.attention.flex_attention import create_mask
    >>> from regard.attention.masks import Window
    >>> create_mask(mask_mod(Window(1, 0), Grid(1, 1, 2, 4)), 1, 1, 2, 4, device="cpu").int()[0, 0]
    tensor([[0, 1, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    device = torch.device(device)
    rule = as_mask(mask)
    if rule is None:
        raise TypeError("mask is None; without a mask, call flex_attention without its argument block_mask.")
    rule.check(grid)
    rule, whole = moved_to(rule, device), grid.whole().axes
    return lambda batch, head, query, key: rule.keep(Place(grid, *whole, (batch, head, query, key)), device)


def moved_to(mask: Mask, device: torch.device) -> Mask:
    """Return a copy of a mask, and of the masks inside it, with all tensors on a device."""
    if not is_dataclass(mask):
        return mask
    moved: dict[str, Tensor | Mask] = {}
    for field in fields(mask):
        value = getattr(mask, field.name)
        if isinstance(value, Tensor):
            moved[field.name] = value.to(device)
        elif isinstance(value, Mask):
            moved[field.name] = moved_to(value, device)
    return replace(mask, **moved)
