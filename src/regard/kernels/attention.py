"""The structs that the C function `regard_attention` takes; attention.h describes their fields."""

import ctypes
from ctypes import c_double, c_float, c_int8, c_int32, c_int64

from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.library import FLOATS, INTEGERS


class CompensatedSum(ctypes.Structure):
    _fields_ = (("rounded", FLOATS), ("error", FLOATS))


class Statistics(ctypes.Structure):
    _fields_ = (
        ("queries", c_int64),
        ("keys_of_head", c_int64),
        ("offset", c_int64),
        ("inverse", FLOATS),
        ("entropy", FLOATS),
        ("distance", FLOATS),
        ("first", FLOATS),
        ("own", FLOATS),
        ("previous", FLOATS),
        ("top", c_int32),
        ("top_weights", FLOATS),
        ("top_keys", INTEGERS),
        ("map_rows", c_int32),
        ("map_columns", c_int32),
        ("reduce_max", c_int32),
        ("map_row_of_query", INTEGERS),
        ("first_key_of_column", INTEGERS),
        ("received", CompensatedSum),
        ("pooled", CompensatedSum),
        ("lock", c_int8),
    )


class Vectors(ctypes.Structure):
    _fields_ = (("numbers", FLOATS), ("batch", c_int64), ("head", c_int64), ("token", c_int64))

    @classmethod
    def of(cls, tensor: Float[Tensor, "_batch _heads tokens d"], batch: int = 0, head: int = 0) -> "Vectors":
        """Return the C struct of queries, keys or values.

        Args:
            tensor: the vectors of all or some batch items and heads of a call; the last axis has stride 1.
            batch, head: the indices that tensor[0, 0] has in the whole call. The pointer is moved back by this
                number of batch items and heads, so that the C function can index the tensor as if it were complete.
        """
        by_batch, by_head, by_token, _ = strides(tensor)
        first = tensor.data_ptr() - tensor.itemsize * (batch * by_batch + head * by_head)
        return cls(first, by_batch, by_head, by_token)


class ByteMask(ctypes.Structure):
    _fields_ = (("bytes", INTEGERS), ("batch", c_int64), ("head", c_int64), ("query", c_int64))

    @classmethod
    def of(cls, tensor: Bool[Tensor, "_batch _heads _queries keys"]) -> "ByteMask":
        return cls(tensor.data_ptr(), *strides(tensor)[:3])


class WeightedSum(ctypes.Structure):
    _fields_ = (("keys", Vectors), ("queries", Vectors), ("width", c_int32))


class Arguments(ctypes.Structure):
    kept: tuple[Tensor | None, ...] = ()
    """Tensors whose addresses are in the struct, stored here so that their memory is not freed."""

    _fields_ = (
        ("statistics", Statistics),
        ("bounds", INTEGERS),
        ("n_blocks", c_int64),
        ("query", Vectors),
        ("key", Vectors),
        ("scores", FLOATS),
        ("computed_masks", INTEGERS),
        ("scale", c_float),
        ("softcap", c_float),
        ("bias", Vectors),
        ("bias_factor", c_float),
        ("mask", ByteMask),
        ("d_key", c_int32),
        ("n_weighted_sums", c_int32),
        ("weighted_sums", WeightedSum * 2),
        ("doubtful", c_int32),
        ("batch", c_int64),
        ("heads", c_int64),
        ("group", c_int64),
        ("sinks", FLOATS),
        ("starts", INTEGERS),
        ("stops", INTEGERS),
        ("limits_batch", c_int64),
        ("limits_head", c_int64),
        ("scratch", FLOATS),
        ("scratch_size", c_int64),
        ("seconds", c_double),
        ("threads", c_int64),
        ("next", c_int64),
        ("done", c_int64),
    )


def strides(tensor: Tensor) -> list[int]:
    """Return the stride of each axis, in elements; 0 for an axis of size 1, which is broadcast."""
    return [0 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
