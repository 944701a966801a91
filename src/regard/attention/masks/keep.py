"""A mask given as a boolean tensor."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile, varies_by_query
from regard.attention.masks.mask import Kept, Mask
from regard.attention.representation import type_name
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Keep(EqualFields, Mask):
    """A mask given as a boolean tensor that broadcasts to [batch heads queries keys]; True = may attend.

    Raises:
        TypeError: the argument is not a boolean tensor.
    """

    tensor: Bool[Tensor, "*shape"]

    def __post_init__(self) -> None:
        if not isinstance(self.tensor, Tensor):
            raise TypeError(
                f"mask is {type_name(self.tensor)}; it takes a Mask such as Causal(), a boolean tensor (True = may "
                "attend) or None."
            )
        if self.tensor.dtype != torch.bool:
            raise TypeError(
                f"mask has dtype {self.tensor.dtype}; a mask is boolean, True = may attend: mask.bool() makes one of "
                "1 and 0. Numbers to be added to the scores are a bias: score=ScaledDot(bias=…)."
            )

    @property
    def per_query(self) -> bool:  # type: ignore[override]
        return varies_by_query(self.tensor)

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        return tile.select(self.tensor.to(device))

    def check(self, grid: Grid) -> None:
        if not grid.admits(self.tensor):
            has_one_row_per_item = self.tensor.shape == (grid.batch, grid.keys)
            raise ValueError(
                f"mask of shape {list(self.tensor.shape)} does not broadcast to {list(grid.shape)} "
                "(batch, heads, queries, keys); every axis must have that size or 1."
                + (" A mask of shape [batch keys] is given as mask[:, None, None]." if has_one_row_per_item else "")
            )


def as_mask(mask: Mask | Tensor | None) -> Mask | None:
    return mask if mask is None or isinstance(mask, Mask) else Keep(mask)
