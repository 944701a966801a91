"""The structs that the C function `regard_attention` takes; attention.h describes their fields."""

import ctypes

from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.structs import fields_of


class CompensatedSum(ctypes.Structure):
    _fields_ = fields_of("attention.h", "CompensatedSum")


class Statistics(ctypes.Structure):
    _fields_ = fields_of("attention.h", "Statistics", CompensatedSum=CompensatedSum)


class Vectors(ctypes.Structure):
    _fields_ = fields_of("attention.h", "Vectors")

    @classmethod
    def of(cls, tensor: Float[Tensor, "_batch _heads tokens d"], batch: int = 0, head: int = 0) -> "Vectors":
        """Return the C struct of queries, keys or values.

        Args:
            tensor: the vectors of some batch items and heads, or of all; the last axis has stride 1.
            batch, head: the indices of tensor[0, 0] among all batch items and heads. The struct points to where batch
                item 0 and head 0 would be, because the C function counts from them.
        """
        by_batch, by_head, by_token, _ = strides(tensor)
        first = tensor.data_ptr() - tensor.itemsize * (batch * by_batch + head * by_head)
        return cls(first, by_batch, by_head, by_token)


class ByteMask(ctypes.Structure):
    _fields_ = fields_of("attention.h", "ByteMask")

    @classmethod
    def of(cls, tensor: Bool[Tensor, "_batch _heads _queries keys"]) -> "ByteMask":
        return cls(tensor.data_ptr(), *strides(tensor)[:3])


class WeightedSum(ctypes.Structure):
    _fields_ = fields_of("attention.h", "WeightedSum", Vectors=Vectors)


class Arguments(ctypes.Structure):
    tensors_pointed_to: tuple[Tensor | None, ...] = ()
    """Tensors whose addresses are in the struct, stored here so that their memory is not freed."""

    _fields_ = fields_of(
        "attention.h", "Arguments", Statistics=Statistics, Vectors=Vectors, ByteMask=ByteMask, WeightedSum=WeightedSum
    )


def strides(tensor: Tensor) -> list[int]:
    """Return the stride of each axis, in elements; 0 for an axis of size 1, which is broadcast."""
    return [0 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
