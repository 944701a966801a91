"""Whether gradients are needed, and blocks that a backward pass computes again, to save memory."""

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

Result = TypeVar("Result")

PLAIN_DISPATCH = Tensor.__torch_dispatch__
"""The dispatch of a plain tensor; a subclass that does operations in its own way has another."""


def need_gradients(tensors: Iterable[Tensor]) -> bool:
    """Return whether a backward pass would reach one of these tensors.

    >>> need_gradients([torch.ones(2), torch.ones(2, requires_grad=True)])
    True
    """
    return torch.is_grad_enabled() and any([tensor.requires_grad for tensor in tensors])  # noqa: C419 (a generator takes three times as long)


def checkpointed(
    function: Callable[..., Result], *arguments: object, reads: Iterable[Tensor] = (), draws: bool = False
) -> Result:
    """Return function(*arguments), without storing its intermediate tensors: a backward pass computes them again.

    They are stored within torch.func and in an exported program, neither of which can compute them again. Where nothing
    requires gradients, there is no backward pass.

    Args:
        reads: tensors that the function reads besides its arguments.
        draws: whether the function draws random numbers, which must be the same in the backward pass: the generators
            of the CPU, and of the devices of the tensors among the arguments, are restored for it.
    """
    tensors = [*reads, *(argument for argument in arguments if isinstance(argument, Tensor))]
    if need_gradients(tensors) and can_checkpoint(tensors):
        return cast(Result, checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=draws))
    return function(*arguments)


def can_checkpoint(tensors: Iterable[Tensor]) -> bool:
    """Return whether a backward pass can compute a function of these tensors again."""
    if torch.compiler.is_compiling():
        return not torch.compiler.is_exporting()
    return not (in_torch_func() or any(tensor.is_inference() for tensor in tensors))


def in_torch_func() -> bool:
    """Return whether torch.func or forward-mode differentiation is active; both know torch's own operations alone."""
    return torch._C._functorch.peek_interpreter_stack() is not None or in_forward_mode()


def in_forward_mode() -> bool:
    """Return whether derivatives are computed in forward mode."""
    return forward_ad._current_level >= 0 and not torch.compiler.is_compiling()


def are_plain(tensors: Iterable[Tensor]) -> bool:
    """Return whether tensors are plain numbers in memory, which a C function may read by their addresses.

    The imaginary part of a conjugate is not: its numbers in memory have the other sign, and a bit says so.
    """
    if torch.compiler.is_compiling() or in_torch_func():
        return False
    return all([type(x).__torch_dispatch__ is PLAIN_DISPATCH and not x.is_neg() for x in tensors])  # noqa: C419
