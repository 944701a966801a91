"""`ThroughDense`: a base class of objects that numpy and torch take for a tensor, which `dense()` computes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv matmul rmatmul pow rpow neg pos abs invert lt le gt ge and rand or ror"
)
"""Names of the operators (`__add__`, …) that act on the tensor of `dense()`; `==` still compares identities."""


class ThroughDense:
    """The base class of objects that stand for a tensor, which `dense()` computes.

    numpy.asarray, torch functions, operators and tensor methods work on these objects as on that tensor.
    """

    __slots__ = ()

    def dense(self) -> Tensor:
        """Return the tensor that this object stands for; each subclass implements it."""
        raise AssertionError(f"{type(self).__name__} has no dense() of its own")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.dense().detach().cpu(), dtype=dtype)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*densified(args), **densified(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Tensor, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if name.endswith("_"):
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}, as it holds no weights to change; change what dense() gives."
            )
        return getattr(self.dense(), name)


def densified(value: Any) -> Any:
    """Return `value` with each `ThroughDense` object in it, also inside tuples, lists and dicts, made a tensor."""
    if isinstance(value, ThroughDense):
        return value.dense()
    if isinstance(value, tuple | list):
        return type(value)(map(densified, value))
    return {key: densified(item) for key, item in value.items()} if isinstance(value, dict) else value


def through_dense(operator: str) -> Callable[..., Any]:
    """Return a method that applies an operator of Tensor, such as "__add__", to the tensor of `dense()`."""

    def apply(self: ThroughDense, *others: Any) -> Any:
        return getattr(torch.Tensor, operator)(self.dense(), *densified(others))

    return apply


for _operator in (f"__{name}__" for name in OPERATORS.split()):
    setattr(ThroughDense, _operator, through_dense(_operator))
