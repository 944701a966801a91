"""Data types of computations: the most precise type of a device, and computations that autocast does not round.

Under `torch.autocast`, products of float32 matrices are computed in half precision, with two or three decimal digits.
The scores and weights of a pattern are computed outside autocast, so that they are exact in float32.
"""

from contextlib import AbstractContextManager, nullcontext

import torch


def widest_type(device: torch.device) -> torch.dtype:
    """Return the floating-point type with the most digits on a device; Apple's GPUs (mps) have no float64.

    >>> widest_type(torch.device("cpu")), widest_type(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    return torch.float32 if device.type == "mps" else torch.float64


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context manager that turns off torch.autocast, so that operations keep the types of their inputs.

    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     with without_autocast(x.device):
    ...         inside = x @ x
    ...     outside = x @ x
    >>> inside.dtype, outside.dtype
    (torch.float32, torch.bfloat16)
    """
    kind = device.type
    if kind == "cpu":
        has_autocast = True
    elif torch.compiler.is_compiling():
        has_autocast = kind != "meta"  # torch.compile of PyTorch 2.11 cannot trace is_autocast_available
    else:
        has_autocast = torch.amp.is_autocast_available(kind)
    if has_autocast and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
