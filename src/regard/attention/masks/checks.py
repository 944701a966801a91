"""Checks of the arguments of masks."""

from torch import Tensor

from regard.attention.grid.grid import is_integer
from regard.attention.representation import short_repr


def check_integers(mask: str, **numbers: object) -> None:
    """Raise TypeError unless every argument in `numbers` is an integer; the argument `offset` may also be None.

    Args:
        mask: the name of the mask class, for the message.
        numbers: the arguments of the mask, by name.

    >>> check_integers("Window", before=1.5, after=0, offset=None)
    Traceback (most recent call last):
      ...
    TypeError: Window was given before=1.5; it takes a whole number, such as 3.
    """
    for name, number in numbers.items():
        or_none = ", or None" if name == "offset" else ""
        if not is_integer(number) and not (or_none and number is None):
            raise TypeError(
                f"{mask} was given {name}={short_repr(number)}; it takes a whole number, such as 3{or_none}."
            )


def check_integer_tensor(mask: str, name: str, argument: object) -> None:
    """Raise TypeError unless an argument of a mask is a tensor of integers.

    Args:
        mask, name: the names of the mask class and of its argument, for the message.

    >>> check_integer_tensor("Padding", "lengths", [5, 3])
    Traceback (most recent call last):
      ...
    TypeError: Padding was given lengths=[5, 3]; it takes a tensor of whole numbers, such as torch.tensor([5, 3]).
    """
    dtype = str(argument.dtype) if isinstance(argument, Tensor) else "none"
    if not dtype.startswith(("torch.int", "torch.uint")):
        hint = " A boolean tensor is a mask itself: mask=…." if dtype == "torch.bool" else ""
        raise TypeError(
            f"{mask} was given {name}={short_repr(argument)}; it takes a tensor of whole numbers, such as "
            f"torch.tensor([5, 3]).{hint}"
        )


def check_not_negative(mask: str, **counts: int) -> None:
    """Raise ValueError if one of the numbers of tokens given to a mask is negative, such as before=-1.

    Args:
        mask: the name of the mask class, for the message.
        counts: all these numbers, by the name of the argument.
    """
    if min(counts.values()) < 0:
        given = ", ".join(f"{name}={count}" for name, count in counts.items())
        raise ValueError(f"{mask}({given}) has a negative number of tokens before or after the query; use 0 for none.")
