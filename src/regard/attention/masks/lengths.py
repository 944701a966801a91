"""The lengths of the items of a batch, for masks that depend on them."""

import torch
from jaxtyping import Integer
from torch import Tensor

from regard.attention.grid.grid import Grid, Tile


def lengths_of_tile(lengths: Integer[Tensor, " batch"], tile: Tile, device: torch.device) -> Tensor:
    """Return the length of each batch item of a tile, broadcastable over the tile.

    The lengths become int64: int8 could not hold the difference between a length and 300 keys.
    """
    return tile.select(lengths.to(device, torch.int64)[:, None, None, None])


def shortest_and_longest(lengths: Integer[Tensor, " batch"], keys: int) -> set[int]:
    """Return two lengths between which all others lie; 0 and `keys` where the tensor must not be read.

    >>> sorted(shortest_and_longest(torch.tensor([5, 3, 4]), keys=11))
    [3, 5]
    """
    if not may_read(lengths):
        return {0, keys}
    numbers = lengths.tolist() or [0]
    return {min(numbers), max(numbers)}


def may_read(lengths: Integer[Tensor, " batch"]) -> bool:
    """Return whether the numbers of a tensor may decide what is computed.

    On an accelerator they may not, because reading them would wait for all its work. Under torch.compile they may not,
    because the compiled program serves other lengths too.
    """
    return lengths.is_cpu and not torch.compiler.is_compiling()


def check_lengths(mask: object, lengths: int | Integer[Tensor, " batch"], grid: Grid) -> None:
    """Raise ValueError unless there is one length for all batch items or one for each."""
    if not isinstance(lengths, int) and lengths.shape[0] not in (1, grid.batch):
        raise ValueError(
            f"{type(mask).__name__} was given {len(lengths)} lengths for a batch of {grid.batch}; give one for each "
            "item."
        )


def refuse_lengths(lengths: Integer[Tensor, " batch"], n_tokens: int) -> None:
    """Raise ValueError unless each length is from 1 to n_tokens; lengths that must not be read are not checked.

    >>> refuse_lengths(torch.tensor([3, 5]), n_tokens=3)
    Traceback (most recent call last):
      ...
    ValueError: lengths[1]=5 in a source of 3 tokens; it counts those that are no padding, so it must be from 1 to 3.
    """
    if not may_read(lengths):
        return
    for item, length in enumerate(lengths.tolist()):
        if not 1 <= length <= n_tokens:
            raise ValueError(
                f"lengths[{item}]={length} in a source of {n_tokens} tokens; it counts those that are no padding, "
                f"so it must be from 1 to {n_tokens}."
            )
