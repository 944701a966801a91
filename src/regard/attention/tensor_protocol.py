"""Objects that numpy and torch treat as the tensor that their method `dense()` returns."""

from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import numpy as np
import torch
from torch import Tensor


def through_dense(operator: str) -> Callable[..., Any]:
    """Return a method that applies an operator of torch.Tensor, such as "__add__", to the tensor `dense()`."""

    def apply(self: Any, *operands: Any) -> Any:
        return getattr(Tensor, operator)(self.dense(), *densified(operands))

    return apply


class ThroughDense:
    """The base class of objects that numpy, torch, einops and operators treat as the tensor that `dense()` returns."""

    __slots__ = ()

    def dense(self) -> Tensor:
        raise AssertionError(f"{type(self).__name__} has no dense() of its own")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        # dense() always makes new numbers, so that `copy` changes nothing
        return np.asarray(self.dense().detach().cpu(), dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:  # torch.as_tensor and torch.tensor call it
        return self.dense().detach().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return torch.empty(0, device=self.device).__dlpack_device__()

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*densified(args), **densified(kwargs or {}))

    # all operators but ==, which tests whether two objects are the same object
    __add__, __radd__ = through_dense("__add__"), through_dense("__radd__")
    __sub__, __rsub__ = through_dense("__sub__"), through_dense("__rsub__")
    __mul__, __rmul__ = through_dense("__mul__"), through_dense("__rmul__")
    __truediv__, __rtruediv__ = through_dense("__truediv__"), through_dense("__rtruediv__")
    __matmul__, __rmatmul__ = through_dense("__matmul__"), through_dense("__rmatmul__")
    __pow__, __rpow__ = through_dense("__pow__"), through_dense("__rpow__")
    __and__, __rand__ = through_dense("__and__"), through_dense("__rand__")
    __or__, __ror__ = through_dense("__or__"), through_dense("__ror__")
    __lt__, __le__ = through_dense("__lt__"), through_dense("__le__")
    __gt__, __ge__ = through_dense("__gt__"), through_dense("__ge__")
    __neg__, __pos__ = through_dense("__neg__"), through_dense("__pos__")
    __abs__, __invert__ = through_dense("__abs__"), through_dense("__invert__")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if not hasattr(Tensor, name):
            near = "".join(f"; nearest: {other}" for other in get_close_matches(name, dir(type(self)), n=1))
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{near}")
        if name.endswith("_"):  # changes a tensor in place
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}, as it holds no weights to change; change what dense() gives."
            )
        return getattr(self.dense(), name)


def densified(value: Any) -> Any:
    """Return `value` with each `ThroughDense` replaced by its tensor, also inside tuples, lists and dicts."""
    if isinstance(value, ThroughDense):
        return value.dense()
    if isinstance(value, tuple | list):
        return type(value)(map(densified, value))
    return {key: densified(item) for key, item in value.items()} if isinstance(value, dict) else value


with suppress(ImportError):  # the module is private; if einops removes it, einops refuses a Pattern in its own words
    from einops._backends import TorchBackend

    class ThroughDenseBackend(TorchBackend):
        """Makes einops accept objects with `dense()`; einops looks for the subclasses of its `AbstractBackend`."""

        framework_name = "regard"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, ThroughDense)
