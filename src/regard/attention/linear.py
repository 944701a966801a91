"""A projection as its tensors, and where that is faster with its weights as the processor reads them.

PyTorch hands a product with few rows and a large matrix to a library that reads the matrix as it lies. oneDNN, which is
in PyTorch too, first lays it out in the order in which it will be read: once, and every product after that takes less
time. `pytest benchmarks --benchmark-only -k linear` compares the two.
"""

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

WORTH_PACKING = 2**17
"""Numbers from which on a matrix is worth it; products with smaller ones and few rows take longer when packed."""


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """x W^T + b, for vectors of which no gradient is asked.

    Attributes:
        weight: W.
        bias: b.
        packed: W in oneDNN's order; None = the product is taken with W as it is.
    """

    weight: Float[Tensor, "d_out d_in"]
    bias: Float[Tensor, " d_out"]
    packed: Tensor | None

    @classmethod
    def of(cls, *modules: nn.Linear) -> "Linear":
        """One projection or several, whose outputs then lie one behind the other."""
        weight: Tensor = modules[0].weight
        bias: Tensor = modules[0].bias
        if len(modules) > 1:
            weight, bias = torch.cat([one.weight for one in modules]), torch.cat([one.bias for one in modules])
        worth = weight.numel() >= WORTH_PACKING and weight.device.type == "cpu" and weight.dtype == torch.float32
        return cls(weight, bias, torch.ops.mkldnn._reorder_linear_weight(weight) if worth and packs() else None)

    def __call__(self, x: Float[Tensor, "*rows d_in"]) -> Float[Tensor, "*rows d_out"]:
        """The projected vectors."""
        if self.packed is None:
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


def as_tensors(module: nn.Linear) -> Linear | None:
    """A projection as its tensors; None where those are not all that counts.

    That is where more than the numbers is wanted, where the module is one that somebody has made of nn.Linear, and
    where a hook waits for its calls.
    """
    known = type(module) is nn.Linear and type(module.weight) is type(module.bias) is nn.Parameter
    return Linear.of(module) if known and not hooked(module) and just_numbers(module.weight.device) else None


def just_numbers(device: torch.device) -> bool:
    """Whether nobody wants gradients, another precision, or a program of what is done."""
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled(device.type) or torch.compiler.is_compiling())


def hooked(module: nn.Module) -> bool:
    """Whether somebody wants to know of a module's calls, or has put something else in their place."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


@cache
def packs() -> bool:
    """Whether this PyTorch has oneDNN, under the names used here, and it computes what PyTorch does."""
    x, weight, bias = (torch.linspace(-1, 1, n) for n in (3 * 32, 48 * 32, 48))
    x, weight = x.view(3, 32), weight.view(48, 32)
    try:
        found = Linear(weight, bias, torch.ops.mkldnn._reorder_linear_weight(weight))(x)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(found, F.linear(x, weight, bias), atol=1e-5)
