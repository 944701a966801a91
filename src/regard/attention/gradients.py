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


def checkpointed(function: Callable[..., Result], *arguments: object, draws: bool = False) -> Result:
    """Return a function's result; its intermediate tensors are not kept, a backward pass computes them again.

    They are kept within torch.func and in an exported program, neither of which can compute them again. Tensors of
    inference mode have no backward pass.

    Args:
        draws: whether the function draws random numbers, which must be the same in the backward pass: the generators
            of the CPU, and of the devices of the tensors among the arguments, are restored for it.
    """
    if torch.is_grad_enabled() and can_checkpoint(arguments):
        return cast(Result, checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=draws))
    return function(*arguments)


def can_checkpoint(arguments: Iterable[object]) -> bool:
    """Return whether a backward pass can compute a function of these arguments again."""
    if torch.compiler.is_compiling():
        return not torch.compiler.is_exporting()
    return not (in_torch_func() or any_inference_tensor(arguments))


def any_inference_tensor(arguments: Iterable[object]) -> bool:
    """Return whether an argument is a tensor of inference mode."""
    return any(isinstance(argument, Tensor) and argument.is_inference() for argument in arguments)


def in_torch_func() -> bool:
    """Return whether torch.func or forward-mode differentiation is active; both know torch's own operations alone."""
    return torch._C._functorch.peek_interpreter_stack() is not None or in_forward_mode()


def in_forward_mode() -> bool:
    """Return whether derivatives are computed in forward mode."""
    return forward_ad._current_level >= 0 and not torch.compiler.is_compiling()


def are_plain(tensors: Iterable[Tensor]) -> bool:
    """Return whether tensors are plain numbers in memory, which a C function may read by their addresses."""
    if torch.compiler.is_compiling() or in_torch_func():
        return False
    return all([type(tensor).__torch_dispatch__ is PLAIN_DISPATCH for tensor in tensors])  # noqa: C419
