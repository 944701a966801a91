"""Whether gradients are wanted, and how a backward pass computes blocks again, so that memory grows with the length."""

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

Result = TypeVar("Result")

JUST_NUMBERS = Tensor.__torch_dispatch__
"""What a plain tensor has; a subclass that does operations in its own way has another."""


def need_gradients(tensors: Iterable[Tensor]) -> bool:
    """Whether a backward pass would come to any of these.

    >>> need_gradients([torch.ones(2), torch.ones(2, requires_grad=True)])
    True
    """
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def checkpointed(function: Callable[..., Result], *arguments: object, draws: bool = False) -> Result:
    """A function's result; what lies between is not kept for the backward pass, which computes it again.

    (torch.func cannot do so, and keeps them, as does a program that is exported; and of tensors of inference mode there
    is no backward pass.)

    Args:
        draws: whether it draws random numbers, which must be the same again: those of the CPU, and of the devices of
            the tensors among its arguments.
    """
    if torch.is_grad_enabled() and can_checkpoint(arguments):
        return cast(Result, checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=draws))
    return function(*arguments)


def can_checkpoint(arguments: Iterable[object]) -> bool:
    """Whether a backward pass can come to a function of these and compute it again."""
    if torch.compiler.is_compiling():
        return not torch.compiler.is_exporting()
    return not (in_torch_func() or any_inference_tensor(arguments))


def any_inference_tensor(arguments: Iterable[object]) -> bool:
    """Whether tensors of inference mode are among these."""
    return any(isinstance(argument, Tensor) and argument.is_inference() for argument in arguments)


def in_torch_func() -> bool:
    """Whether torch.func or forward differentiation is at work, of which only torch's own operations know."""
    return torch._C._functorch.peek_interpreter_stack() is not None or in_forward_mode()


def in_forward_mode() -> bool:
    """Whether derivatives are computed forwards, with the results."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def are_plain(tensors: Iterable[Tensor]) -> bool:
    """Whether tensors are just numbers in memory, which a compiled function may be pointed to."""
    if torch.compiler.is_compiling() or in_torch_func():
        return False
    return all(type(tensor).__torch_dispatch__ is JUST_NUMBERS for tensor in tensors)
