"""Masks for FlexAttention, PyTorch's compiler of attention: the same rules, asked about one place at a time.

    allows = mask_mod(Causal() & Documents(ids), Grid(batch=2, heads=8, queries=4096, keys=4096))
    block_mask = create_block_mask(allows, 2, 8, 4096, 4096, device="cpu")

A rule is written once, in the mask's own `keep`. There it meets the positions of a whole tile, here the four numbers of
a single place, and gives a single truth.

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
"""Whether, in this batch item and head, this query may attend to this key."""


@dataclass(frozen=True, slots=True, eq=False)
class Place(Tile):
    """One place in a tile: a batch item, a head, a query and a key, whose numbers are known only to FlexAttention."""

    at: tuple[Index, Index, Index, Index]

    def along(self, axis: int, device: torch.device) -> Index:
        """The number of this place along one axis."""
        return self.at[axis]

    def select(self, tensor: Tensor) -> Tensor:
        """What a tensor that broadcasts over the grid has at this place."""
        sized = zip(reversed(self.at), reversed(tensor.shape), strict=False)
        at = [number for number, size in sized if size != 1][::-1]
        return tensor.squeeze()[at] if at else tensor.squeeze()


def mask_mod(mask: Mask | Tensor, grid: Grid, device: torch.device | str = "cpu") -> MaskMod:
    """A mask as the function (b, h, q_idx, kv_idx) -> bool that `create_block_mask` and `create_mask` take.

    It holds for this grid only: the positions of the queries depend on how many there are.

    Raises:
        ValueError: a mask that does not fit the grid.
        TypeError: what is no mask.

    >>> from torch.nn.attention.flex_attention import create_mask
    >>> from regard.attention.masks import Window
    >>> create_mask(mask_mod(Window(1, 0), Grid(1, 1, 2, 4)), 1, 1, 2, 4, device="cpu").int()[0, 0]
    tensor([[0, 1, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    device = torch.device(device)
    rule = as_mask(mask)
    if rule is None:
        raise TypeError("mask is None, which FlexAttention takes as it is: leave its block_mask out.")
    rule.check(grid)
    rule, whole = on(rule, device), grid.whole().axes
    return lambda batch, head, query, key: rule.keep(Place(grid, *whole, (batch, head, query, key)), device)


def on(mask: Mask, device: torch.device) -> Mask:
    """The same mask with its tensors on a device, so that the compiled rule has none to move."""
    if not is_dataclass(mask):
        return mask
    held = {field.name: getattr(mask, field.name) for field in fields(mask)}
    moved = {
        name: part.to(device) if isinstance(part, Tensor) else on(part, device)
        for name, part in held.items()
        if isinstance(part, Tensor | Mask)
    }
    return replace(mask, **moved)
