"""Where queries stand among the keys, for the masks that count positions."""

import torch
from jaxtyping import Int, Integer
from torch import Tensor

from regard.attention.grid.grid import Grid, is_whole
from regard.attention.representation import short_repr


def first_position(offset: int | None, grid: Grid) -> int:
    """The position of the first query among the keys; offset None = the queries are the last tokens.

    >>> first_position(None, Grid(batch=1, heads=1, queries=3, keys=11))
    8
    """
    return grid.offset if offset is None else offset


def check_whole(mask: str, **numbers: object) -> None:
    """Refuse what is no whole number; an offset may be None.

    >>> check_whole("Window", before=1.5, after=0, offset=None)
    Traceback (most recent call last):
      ...
    TypeError: Window was given before=1.5; it takes a whole number, such as 3.
    """
    for name, number in numbers.items():
        or_none = ", or None" if name == "offset" else ""
        if not is_whole(number) and not (or_none and number is None):
            raise TypeError(
                f"{mask} was given {name}={short_repr(number)}; it takes a whole number, such as 3{or_none}."
            )


def check_whole_numbers(mask: str, name: str, given: object) -> None:
    """Refuse what is no tensor of whole numbers.

    >>> check_whole_numbers("Padding", "lengths", [5, 3])
    Traceback (most recent call last):
      ...
    TypeError: Padding was given lengths=[5, 3]; it takes a tensor of whole numbers, such as torch.tensor([5, 3]).
    """
    if not isinstance(given, Tensor) or given.is_floating_point() or given.dtype == torch.bool:
        hint = " A boolean tensor is a mask itself: mask=…." if "torch.bool" in str(getattr(given, "dtype", "")) else ""
        raise TypeError(
            f"{mask} was given {name}={short_repr(given)}; it takes a tensor of whole numbers, such as "
            f"torch.tensor([5, 3]).{hint}"
        )


def own_positions(offset: int | None, grid: Grid, queries: range) -> range:
    """The positions of some consecutive queries among the keys; they may lie before the first key or after the last."""
    first = first_position(offset, grid)
    return range(queries.start + first, queries.stop + first)


def all_positions(offset: int | None, grid: Grid, device: torch.device) -> Int[Tensor, " queries"]:
    """The position of every query among the keys."""
    return torch.arange(grid.queries, device=device) + first_position(offset, grid)


def within(start: int, stop: int, keys: int) -> range:
    """The positions from start up to stop that are keys.

    >>> within(-2, 3, keys=11)
    range(0, 3)
    """
    return range(clamp(start, keys), clamp(stop, keys))


def clamp(position: int, keys: int) -> int:
    """The position, brought into 0 … keys."""
    return max(0, min(position, keys))


def most(lengths: int | Integer[Tensor, " batch"], keys: int) -> int:
    """A length that no item of the batch goes beyond; where lengths are not to be looked at, all the keys."""
    if isinstance(lengths, int):
        return clamp(lengths, keys)
    return clamp(max(lengths.tolist(), default=0), keys) if looked_at(lengths) else keys


def looked_at(lengths: Integer[Tensor, " batch"]) -> bool:
    """Whether the numbers of a tensor may decide what is computed.

    Not on an accelerator, because that would wait for all it has to do, nor in a call that is being compiled, because
    the program is for other lengths too.
    """
    return lengths.is_cpu and not torch.compiler.is_compiling()
