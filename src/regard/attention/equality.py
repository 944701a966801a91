"""The comparison (==) of masks, scores, biases and normalisers, which may contain tensors."""

from dataclasses import fields
from typing import Any

from torch import Tensor


class EqualFields:
    """The base class of dataclasses whose == compares all fields; a tensor equals only itself.

    The elements of tensors are not compared: on a GPU, reading them would wait for all queued kernels.

    >>> from regard import Alibi, ScaledDot, Softmax
    >>> Softmax() == Softmax(1.0), Softmax() == Softmax(0.5), ScaledDot(bias=Alibi()) == ScaledDot(bias=Alibi())
    (True, False, True)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(map(are_equal, values_of(self), values_of(other)))

    def __hash__(self) -> int:
        return hash((type(self), *values_of(self)))


def are_equal(one: object, two: object) -> bool:
    return one is two or not (isinstance(one, Tensor) or isinstance(two, Tensor) or one != two)


def values_of(part: Any) -> list[object]:
    return [getattr(part, field.name) for field in fields(part)]
