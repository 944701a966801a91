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
    """Notices the end of a chain of two matrix products, such as (left @ right) @ value.

    It stores the tensors that may be attention weights: products of two matrices, and results of other operations on
    such a product that keep the sizes of its last two axes.
    """

    def __init__(self) -> None:
        self.from_products: Any = WeakTensorKeyDictionary()

    def is_end(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
        """Return whether a call of a torch function ends a chain: it multiplies a stored tensor by another matrix.

        If the call begins or continues a chain, its result is stored in `from_products`. A call begins a chain if it
        multiplies two matrices, and continues one if its result has the sizes of a stored tensor that it reads.
        A product with a parameter of the model neither begins nor ends a chain.
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
