"""A projection as its tensors, by what is fastest for as many rows as there are.

A few rows are multiplied with the weights as they lie, by a kernel of our own (`linear.c`): what counts there is that
the weights are read once. For more, a large matrix is laid out in the order in which oneDNN, which is in PyTorch too,
will read it: once, and every product after that takes less time. All else is left to PyTorch. `pytest benchmarks
--benchmark-only -k linear` compares it with PyTorch.
"""

import ctypes
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels.library import FLOATS, KERNELS, compiled
from regard.kernels.threads import run_on_threads

SOURCE = KERNELS / "linear.c"
WIDE = 16
"""The most numbers that a processor is given at once; what comes into a kernel's projection has a multiple of it."""

FEW = 16
"""Rows up to which a kernel that reads the weights as they lie is as fast as any."""

WORTH_THREADS = 2**16
"""Weights from which on it is worth while to wake other threads."""

WORTH_PACKING = 2**17
"""Weights from which on it is worth while to lay them out anew; products with fewer take longer so."""


class Projection(ctypes.Structure):
    """The struct of the same name in product.h."""

    _fields_ = (("weight", FLOATS), ("bias", FLOATS), ("n_in", ctypes.c_int64), ("n_out", ctypes.c_int64))


class Call(ctypes.Structure):
    """What `regard_linear` is given: the struct of the same name in linear.c, field by field."""

    _fields_ = (
        ("of", Projection),
        ("rows", ctypes.c_int64),
        ("x", FLOATS),
        ("out", FLOATS),
        ("next", ctypes.c_int64),
    )


@dataclass(frozen=True, eq=False)
class Linear:
    """x W^T + b, for vectors of which no gradient is asked.

    Attributes:
        weight: W.
        bias: b.
    """

    weight: Float[Tensor, "d_out d_in"]
    bias: Float[Tensor, " d_out"]

    @classmethod
    def of(cls, module: nn.Linear) -> "Linear":
        """A projection's tensors, which stay what they are where the module is given others."""
        return cls(module.weight.detach(), module.bias.detach())

    def __call__(self, x: Float[Tensor, "*rows d_in"]) -> Float[Tensor, "*rows d_out"]:
        """The projected vectors."""
        few = x.numel() <= FEW * x.shape[-1]
        alike = (x.shape[-1], x.dtype, x.device) == (self.weight.shape[1], self.weight.dtype, self.weight.device)
        if few and alike and why_not(self.weight, self.bias) is None:
            return self.of_few(x.contiguous())
        if self.packed is None:
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def of_few(self, x: Float[Tensor, "*rows d_in"]) -> Float[Tensor, "*rows d_out"]:
        """The same by the kernel."""
        out = x.new_empty(*x.shape[:-1], len(self.weight))
        rows = x.numel() // x.shape[-1]
        call = Call(of=self.projection, rows=rows, x=x.data_ptr(), out=out.data_ptr())
        run_on_threads(regard_linear(), call, torch.get_num_threads() if self.weight.numel() >= WORTH_THREADS else 1)
        return out

    @cached_property
    def packed(self) -> Tensor | None:
        """W in oneDNN's order; None where the product is taken with W as it is."""
        weight = self.weight
        worth = weight.numel() >= WORTH_PACKING and weight.device.type == "cpu" and weight.dtype == torch.float32
        return torch.ops.mkldnn._reorder_linear_weight(weight) if worth and packs() else None

    @cached_property
    def projection(self) -> Projection:
        """Where the tensors lie, for a kernel that `why_not` has nothing against."""
        n_out, n_in = self.weight.shape
        return Projection(weight=self.weight.data_ptr(), bias=self.bias.data_ptr(), n_in=n_in, n_out=n_out)


def why_not(weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, " d_out"]) -> str | None:
    """Why a kernel cannot project with a matrix and a bias; None if it can."""
    if weight.device.type != "cpu":
        return "it runs on a CPU"
    if not weight.dtype == bias.dtype == torch.float32:
        return "it computes in float32"
    if weight.shape[1] % WIDE or not (weight.is_contiguous() and bias.is_contiguous()):
        return f"weights are rows of a multiple of {WIDE} numbers, one behind the other"
    if regard_linear() is None:
        return "no C compiler was found"
    return None


@cache
def regard_linear() -> Any | None:
    """The compiled function, which takes a `Call` by reference; None where it cannot be had."""
    return compiled(SOURCE, "regard_linear", ctypes.c_void_p)


def as_tensors(module: nn.Linear) -> Linear | None:
    """A projection as its tensors; None where those are not all that counts.

    That is where more than the numbers is wanted, where the module is one that somebody has made of nn.Linear, and
    where a hook waits for its calls.
    """
    known = type(module) is nn.Linear and type(module.weight) is type(module.bias) is nn.Parameter
    return Linear.of(module) if known and not hooked(module) and nothing_extra(module.weight.device) else None


def nothing_extra(device: torch.device) -> bool:
    """Whether gradients, autocast and torch.compile are all off."""
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled(device.type) or torch.compiler.is_compiling())


def hooked(module: nn.Module) -> bool:
    """Whether somebody wants to know of a module's calls, or has put something else in their place."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


@cache
def packs() -> bool:
    """Whether this PyTorch has oneDNN, under the names used here, and it computes what PyTorch does."""
    sizes = (3 * 32, 48 * 32, 48)
    x, weight, bias = (torch.linspace(-1, 1, n, dtype=torch.float32, device="cpu") for n in sizes)
    x, weight = x.view(3, 32), weight.view(48, 32)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        found = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(found, F.linear(x, weight, bias), atol=1e-5)
