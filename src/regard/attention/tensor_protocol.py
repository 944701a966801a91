"""Objects that numpy and torch treat as the tensor that their method `dense()` returns."""

from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv matmul rmatmul pow rpow neg pos abs invert lt le gt ge and rand or ror"
)
"""Names of operators, such as "add" for `__add__`, without "eq": == tests whether two objects are the same object."""


class ThroughDense:
    """The base class of objects that numpy, torch, einops and operators treat as the tensor that `dense()` returns."""

    __slots__ = ()

    def dense(self) -> Tensor:
        raise AssertionError(f"{type(self).__name__} has no dense() of its own")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.dense().detach().cpu(), dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:  # torch.as_tensor and torch.tensor call it
        return self.dense().detach().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return torch.empty(0, device=self.device).__dlpack_device__()

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*densified(args), **densified(kwargs or {}))

    if TYPE_CHECKING:  # for type checkers; a loop below this class defines the operators

        def __add__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __add__
        __rmatmul__ = __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = __add__
        __lt__ = __le__ = __gt__ = __ge__ = __add__
        __pos__ = __abs__ = __invert__ = __neg__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if not hasattr(Tensor, name):
            near = "".join(f"; nearest: {other}" for other in get_close_matches(name, dir(type(self)), n=1))
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{near}")
        if name.endswith("_"):
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


def through_dense(operator: str) -> Callable[..., Any]:
    def apply(self: ThroughDense, *operands: Any) -> Any:
        return getattr(torch.Tensor, operator)(self.dense(), *densified(operands))

    return apply


for _operator in (f"__{name}__" for name in OPERATORS.split()):
    setattr(ThroughDense, _operator, through_dense(_operator))


with suppress(ImportError):  # the module is private; if einops removes it, einops refuses a Pattern in its own words
    from einops._backends import TorchBackend

    class ThroughDenseBackend(TorchBackend):
        """Makes einops accept objects with `dense()`; einops looks for the subclasses of its `AbstractBackend`."""

        framework_name = "regard"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, ThroughDense)
