"""Checks of the arguments of masks."""

from torch import Tensor

from regard.attention.grid.grid import is_integer
from regard.attention.representation import short_repr


def check_integers(mask_name: str, **numbers: object) -> None:
    """Raise TypeError unless all numbers given to a mask are integers; `offset` may also be None."""
    for name, number in numbers.items():
        may_be_none = name == "offset"
        is_allowed = is_integer(number) or (number is None and may_be_none)
        if not is_allowed:
            allowed = "a whole number, such as 3" + (", or None" if may_be_none else "")
            raise TypeError(f"{mask_name} was given {name}={short_repr(number)}; it takes {allowed}.")


def check_integer_tensor(mask_name: str, name: str, argument: object) -> None:
    dtype = str(argument.dtype) if isinstance(argument, Tensor) else "none"
    if not dtype.startswith(("torch.int", "torch.uint")):
        hint = " A boolean tensor is a mask itself: mask=…." if dtype == "torch.bool" else ""
        raise TypeError(
            f"{mask_name} was given {name}={short_repr(argument)}; it takes a tensor of whole numbers, such as "
            f"torch.tensor([5, 3]).{hint}"
        )


def check_not_negative(mask_name: str, **counts: int) -> None:
    if min(counts.values()) < 0:
        given = ", ".join(f"{name}={count}" for name, count in counts.items())
        raise ValueError(
            f"{mask_name}({given}) has a negative number of tokens before or after the query; use 0 for none."
        )
