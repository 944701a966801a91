"""Data types of computations: the most precise type of a device, and computations that autocast does not round."""

from contextlib import AbstractContextManager, nullcontext

import torch

UNCHANGED = nullcontext()


def widest_type(device: torch.device) -> torch.dtype:
    """Return the floating-point type with the most digits on a device; Apple's GPUs (mps) have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context manager that turns off torch.autocast, so that operations keep the types of their inputs.

    Under autocast, products of float32 matrices would be computed in half precision, with two or three decimal digits.
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
    return UNCHANGED
