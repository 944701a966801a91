"""Notices attention that is computed in a form which `written_out` does not recognise: a chain of two products.

weights = left @ right      matmul, bmm, baddbmm, einsum, or (left * right).sum(…); neither factor is a parameter
weights = …                 any operations that keep the number of elements, such as exp, division, a mask or squeeze
weights @ value             or value @ weights, where value is no parameter either: the end of a chain
"""

from typing import Any

from torch import Tensor

from regard.tracing.watching.origins import is_parameter
from regard.tracing.watching.tensor_table import TensorTable
from regard.tracing.watching.written_out import tensors_in

PRODUCTS = ("matmul", "mm", "mv", "bmm", "baddbmm", "einsum", "sum")
MULTIPLICATIONS = ("mul", "rmul", "multiply")


class MatrixChains:
    """Stores the tensors that may be attention weights: products of two tensors, and tensors computed from them."""

    def __init__(self) -> None:
        self.from_products = TensorTable[bool]()
        self.multiplied = TensorTable[bool]()
        """Maps each result of left * right, of which `sum` makes a product, to: is a factor in `from_products`."""

    def ends_chain(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
        """Return whether a torch call is the end of a chain: it multiplies a tensor in `from_products` by another.

        If not, add the result to `from_products` if it is a product of two tensors, or computed from a tensor in
        `from_products`. A product with a parameter of the model, or with a single number, does not count.
        """
        name = getattr(func, "__name__", "").strip("_")
        is_product, is_multiplication = name in PRODUCTS, name in MULTIPLICATIONS
        if not isinstance(result, Tensor) or not (is_product or is_multiplication or self.from_products):
            return False
        operands = tensors_in([*args, *kwargs.values()])
        is_chained = any(operand in self.from_products for operand in operands)
        has_parameter_or_number = any(operand.ndim == 0 or is_parameter(operand) for operand in operands)
        if name == "sum":
            is_product = result.ndim > 0 and operands[0] in self.multiplied
            is_chained = self.multiplied.get(operands[0]) or False
        elif is_product and has_parameter_or_number:
            return False
        elif is_multiplication and len(operands) == 2 and not has_parameter_or_number:
            self.multiplied[result] = is_chained
        if is_product and is_chained:
            return True
        of_same_size = [operand for operand in operands if operand.numel() == result.numel()]
        if is_product or any(operand in self.from_products for operand in of_same_size):
            self.from_products[result] = True
        return False
