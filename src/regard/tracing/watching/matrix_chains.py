"""Notices attention that is computed in a form which `written_out` does not recognise: a chain of two products.

weights = left @ right      matmul, bmm, baddbmm, einsum, or (left * right).sum(…); neither factor is a parameter
weights = …                 any operations that keep the number of elements, such as exp, division, a mask or squeeze
weights @ value             or value @ weights, where value is no parameter either: the end of a chain

If one of the operations between the products is a softmax, the chain is attention. Without a softmax, it may be
something else, such as a state-space model.
"""

from enum import Enum
from typing import Any

from torch import Tensor

from regard.tracing.watching.origins import is_parameter
from regard.tracing.watching.tensor_table import TensorTable
from regard.tracing.watching.written_out import tensors_in

PRODUCTS = ("matmul", "mm", "mv", "bmm", "baddbmm", "einsum", "sum")
MULTIPLICATIONS = ("mul", "rmul", "multiply")


SOFTMAXES = ("softmax", "special_softmax", "log_softmax", "special_log_softmax", "softmin")


class Chain(Enum):
    """The chain of products that a torch call ends: attention with a softmax, or what may be something else."""

    WITH_SOFTMAX = "with a softmax"
    WITHOUT_SOFTMAX = "without a softmax"


class MatrixChains:
    """Stores the tensors that may be attention weights: products of two tensors, and tensors computed from them.

    `from_products` maps each of them to: was it computed by a softmax? `multiplied` has each result of left * right,
    since (left * right).sum(…) is a product, too; it maps the result to `softmaxes_before([left, right])`.
    """

    def __init__(self) -> None:
        self.from_products = TensorTable[bool]()
        self.multiplied = TensorTable[list[bool]]()

    def chain_ended_by(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Chain | None:
        """Return the chain that a torch call ends, if it multiplies a tensor in `from_products` by another; else None.

        If it ends none, add the result to `from_products` if it is a product of two tensors, or computed from a tensor
        in `from_products`. A product with a parameter of the model, or with a single number, does not count.
        """
        name = getattr(func, "__name__", "").strip("_")
        is_product, is_multiplication = name in PRODUCTS, name in MULTIPLICATIONS
        is_before_any_product = not self.from_products and not is_product and not is_multiplication
        if is_before_any_product or not isinstance(result, Tensor):
            return None
        operands = tensors_in([*args, *kwargs.values()])
        softmaxes = self.softmaxes_before(operands)
        has_parameter_or_number = any(operand.ndim == 0 or is_parameter(operand) for operand in operands)
        if name == "sum":  # a product only after a multiplication, whose factors are the operands of the product
            is_product = result.ndim > 0 and operands[0] in self.multiplied
            softmaxes = self.multiplied.get(operands[0]) or []
        elif is_product and has_parameter_or_number:
            return None
        elif is_multiplication and len(operands) == 2 and not has_parameter_or_number:
            self.multiplied[result] = softmaxes
        if is_product and softmaxes:  # an operand was computed from an earlier product
            return Chain.WITH_SOFTMAX if any(softmaxes) else Chain.WITHOUT_SOFTMAX
        # operations inside a chain keep the number of elements
        softmaxes = self.softmaxes_before([operand for operand in operands if operand.numel() == result.numel()])
        if is_product or softmaxes:
            self.from_products[result] = name in SOFTMAXES or any(softmaxes)
        return None

    def softmaxes_before(self, operands: list[Tensor]) -> list[bool]:
        """Return the entries of the operands in `from_products`; an operand without an entry is left out."""
        return [entry for operand in operands if (entry := self.from_products.get(operand)) is not None]
