"""Padding: keys that fill up a batch and are no tokens."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Integer
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile
from regard.attention.masks.mask import Kept, Mask
from regard.attention.masks.positions import check_whole_numbers, looked_at, most, within
from regard.attention.masks.ranges import Ranges

Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Padding(Mask):
    """Of each batch item, `lengths[item]` keys are tokens and the rest is padding that nobody attends to.

    Args:
        lengths: how many tokens each item of the batch has.
        side: where the padding is. "right": the first keys are tokens; "left": the last ones are.
    """

    lengths: Integer[Tensor, " batch"]
    side: Side = "right"
    per_query = False

    def __post_init__(self) -> None:
        if self.side not in get_args(Side):
            raise ValueError(
                f"Padding(side={self.side!r}) says on which side of the tokens the padding is; "
                'it must be "right" or "left".'
            )
        check_whole_numbers("Padding", "lengths", self.lengths)

    def keep(self, tile: Tile, device: torch.device) -> Kept:
        """True for keys that are tokens."""
        lengths, key = over_items(self.lengths, tile, device), tile.along(3, device)
        return key < lengths if self.side == "right" else key >= tile.grid.keys - lengths

    def reach(self, grid: Grid, queries: range) -> range:
        """The tokens of the longest item."""
        longest = most(self.lengths, grid.keys)
        return within(0, longest, grid.keys) if self.side == "right" else range(grid.keys - longest, grid.keys)

    def fills_reach(self, grid: Grid, queries: range) -> bool:
        """Where all items have as many tokens; lengths that are not to be looked at may differ."""
        return looked_at(self.lengths) and len(set(self.lengths.tolist())) <= 1

    def ranges(self, grid: Grid, device: torch.device) -> Ranges:
        """The tokens of each item."""
        lengths = self.lengths.to(device, torch.int64)[:, None, None]
        if self.side == "right":
            return Ranges.of(0, lengths, grid, device)
        return Ranges.of(grid.keys - lengths, grid.keys, grid, device)

    def check(self, grid: Grid) -> None:
        """There must be one length for each item of the batch."""
        check_lengths("Padding", self.lengths, grid)


def over_items(lengths: int | Integer[Tensor, " batch"], tile: Tile, device: torch.device) -> int | Tensor:
    """The length of each batch item of a tile, shaped so that it broadcasts over it; one for all stays as it is.

    They are int64, whatever they came in, as int8 could not hold a difference from 300 keys.
    """
    return lengths if isinstance(lengths, int) else tile.select(lengths.to(device, torch.int64)[:, None, None, None])


def refuse_lengths(lengths: Integer[Tensor, " batch"], n_tokens: int) -> None:
    """Refuse lengths below 1, or beyond the tokens that there are; where they are not to be looked at, nothing is said.

    >>> refuse_lengths(torch.tensor([3, 5]), n_tokens=3)
    Traceback (most recent call last):
      ...
    ValueError: lengths[1]=5 in a source of 3 tokens; it counts those that are no padding, so it must be from 1 to 3.
    """
    if not looked_at(lengths):
        return
    for item, length in enumerate(lengths.tolist()):
        if not 1 <= length <= n_tokens:
            raise ValueError(
                f"lengths[{item}]={length} in a source of {n_tokens} tokens; it counts those that are no padding, "
                f"so it must be from 1 to {n_tokens}."
            )


def check_lengths(name: str, lengths: int | Integer[Tensor, " batch"], grid: Grid) -> None:
    """Refuse lengths of which there is not one for each item of the batch."""
    if not isinstance(lengths, int) and lengths.shape[0] not in (1, grid.batch):
        raise ValueError(
            f"{name} was given {len(lengths)} lengths for a batch of {grid.batch}; give one for each item."
        )
