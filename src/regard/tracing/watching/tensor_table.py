"""A dictionary from tensors to values that does not keep the tensors in memory."""

from typing import Any, Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakIdRef

Value = TypeVar("Value")


class TensorTable(Generic[Value]):
    """Maps tensors to values; when a tensor is freed, its entry is removed.

    A lookup takes a quarter of the time of torch's WeakTensorKeyDictionary, which makes a weak reference for each
    lookup. `Recorder` looks up every operand of every torch function.
    """

    def __init__(self) -> None:
        self.entries: dict[int, tuple[Any, Value]] = {}
        """Maps id(tensor) to the pair (weak reference to the tensor, value)."""

    def __setitem__(self, tensor: Tensor, value: Value) -> None:
        key = id(tensor)
        self.entries[key] = WeakIdRef(tensor, lambda _: self.entries.pop(key, None)), value

    def get(self, tensor: Tensor) -> Value | None:
        entry = self.entries.get(id(tensor))
        if entry is None:
            return None
        reference, value = entry
        return value if reference() is tensor else None

    def __contains__(self, tensor: Tensor) -> bool:
        return self.get(tensor) is not None

    def __bool__(self) -> bool:
        return bool(self.entries)
