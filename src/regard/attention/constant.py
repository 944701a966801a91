"""The check of a number that has no gradient, such as a temperature."""

from typing import Any

from torch import Tensor


def constant(owner: str, name: str, number: Any, instead: str) -> Any:
    """Return a tensor or NumPy number without axes as a Python number, and any other object as it is.

    Args:
        owner, name: the class and the argument that the number was given for.
        instead: what to write in place of a number that is learned.

    Raises:
        TypeError: the number is a tensor that requires gradients, or it has axes.
    """
    if isinstance(number, Tensor) and number.requires_grad:
        raise TypeError(f"{name} is a tensor that requires gradients, but {owner} has a constant {name}; {instead}.")
    if not hasattr(number, "ndim"):
        return number
    if number.ndim:
        raise TypeError(f"{name} has shape {list(number.shape)}; {owner} takes one number.")
    return number.item()
