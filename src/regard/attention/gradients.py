"""Gradient checkpointing (the backward pass recomputes tensors), and whether autograd or torch.func is active."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

Result = TypeVar("Result")

ERROR_LEAVES_HOOKS = torch.__version__ < "2.13"  # torch's version class compares numbers, not texts
"""Whether an error in a checkpointed function leaves torch's hooks for saved tensors active (a bug before torch 2.13).

The hooks stay as long as the error's traceback exists, and make the next backward pass fail.
"""

PLAIN_DISPATCH = Tensor.__torch_dispatch__
"""`__torch_dispatch__` of a plain tensor; tensor subclasses that redefine operations override it."""

PROXY_MODE = torch._C._TorchDispatchModeKey.PROXY
"""The key of the dispatch mode that is active while make_fx records operations."""


def need_gradients(tensors: Iterable[Tensor]) -> bool:
    if torch.is_grad_enabled():
        for tensor in tensors:  # any() of a generator takes three times as long
            if tensor.requires_grad:
                return True
    return False


def checkpointed(
    function: Callable[..., Result], *arguments: object, reads: Iterable[Tensor] = (), draws: bool = False
) -> Result:
    """Return function(*arguments), with gradient checkpointing: the backward pass recomputes intermediate tensors.

    The function is called without checkpointing if nothing requires gradients, or if `can_checkpoint` returns False.

    Args:
        reads: tensors that the function uses besides its arguments.
        draws: whether the function draws random numbers. The backward pass then restores the states of the random
            generators of the CPU and of the arguments' devices, so that the function draws the same numbers.
    """
    tensors = [*reads, *(argument for argument in arguments if isinstance(argument, Tensor))]
    if need_gradients(tensors) and can_checkpoint(tensors):
        run = checkpoint_then_raise if ERROR_LEAVES_HOOKS and not torch.compiler.is_compiling() else checkpoint
        return cast(Result, run(function, *arguments, use_reentrant=False, preserve_rng_state=draws))
    return function(*arguments)


def checkpoint_then_raise(function: Callable[..., Result], *arguments: object, **options: Any) -> Result:
    """Return `checkpoint(function, …)`. An error in the function is raised after `checkpoint` has removed its hooks."""
    errors: list[BaseException] = []
    is_first = True

    def run(*inputs: object) -> Result | None:
        nonlocal is_first
        if not is_first:  # the backward pass calls the function again
            return function(*inputs)
        is_first = False
        try:
            return function(*inputs)
        except BaseException as error:
            errors.append(error)
            return None

    result = checkpoint(run, *arguments, **options)
    if errors:
        raise errors.pop()  # by pop, the list does not keep the error and its traceback in memory
    return cast(Result, result)


def can_checkpoint(tensors: Iterable[Tensor]) -> bool:
    """Return False where checkpointing is not supported.

    This is so in exported programs, within torch.func, in forward-mode differentiation, and for inference-mode tensors.
    """
    if torch.compiler.is_compiling():
        return not torch.compiler.is_exporting()
    return not (in_torch_func() or any(tensor.is_inference() for tensor in tensors))


def in_torch_func() -> bool:
    """Return whether a transform of torch.func, such as vmap, or forward-mode differentiation is active.

    Always False under torch.compile, where this cannot be tested.
    """
    if torch.compiler.is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None or in_forward_mode()


def in_forward_mode() -> bool:
    return forward_ad._current_level >= 0 and not torch.compiler.is_compiling()


def is_recorded() -> bool:
    """Return whether torch.jit.trace or make_fx records a program, in which numbers read by Python are constants."""
    return torch._C._is_tracing() or torch._C._get_dispatch_mode(PROXY_MODE) is not None


def are_concrete(tensors: Iterable[Tensor]) -> bool:
    """Return whether C code may read the numbers of these tensors from memory.

    False under torch.compile, torch.func, forward-mode differentiation, torch.jit.trace and make_fx. Also False if a
    tensor is of a subclass that redefines operations, or has numbers of the opposite sign in memory (`Tensor.is_neg`).
    """
    # in_torch_func() is written out here for speed: every call of attend runs this
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    if forward_ad._current_level >= 0 or is_recorded():
        return False
    for tensor in tensors:  # noqa: SIM110 (a generator takes three times as long)
        if type(tensor).__torch_dispatch__ is not PLAIN_DISPATCH or tensor.is_neg():
            return False
    return True
