"""Notices attention that is computed in a form which `written_out` does not recognise: a chain of two matrix products.

weights = left @ right      matmul, bmm, baddbmm, einsum; neither factor is a parameter of the model
weights = …                 any operations that keep the sizes of the last two axes, such as exp, division or a mask
weights @ value             or value @ weights, where value is no parameter either: the end of a chain
"""

from typing import Any

from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from regard.tracing.watching.written_out import tensors_in

PRODUCTS = ("matmul", "rmatmul", "bmm", "baddbmm", "einsum")


class MatrixChains:
    """The tensors that were computed from a product of two matrices and have the sizes of this product."""

    def __init__(self) -> None:
        self.from_products: Any = WeakTensorKeyDictionary()

    def is_end(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
        """Return whether a call multiplies a product of two matrices with a third matrix.

        If the call only computes or changes a product of two matrices, store its result in `from_products`.
        """
        is_product = getattr(func, "__name__", "").strip("_") in PRODUCTS
        if not isinstance(result, Tensor) or result.ndim < 2 or not (is_product or self.from_products):
            return False
        operands = tensors_in([*args, *kwargs.values()])
        chained = [operand for operand in operands if operand in self.from_products]
        if not is_product:
            if any(operand.shape[-2:] == result.shape[-2:] for operand in chained):
                self.from_products[result] = True
            return False
        if any(operand.ndim < 2 or is_parameter(operand) for operand in operands):
            return False
        if not chained:
            self.from_products[result] = True
        return bool(chained)


def is_parameter(tensor: Tensor) -> bool:
    """Return whether a tensor is a parameter of a model, or a view of one."""
    return isinstance(tensor if tensor._base is None else tensor._base, nn.Parameter)
