"""Data types of computations: the widest type of a device, and types that autocast does not change.

Under `torch.autocast` a product of two float32 matrices is computed in a half type. The projections of a model are, so
that queries, keys and values come in that type. Were scores and weights rounded to it too, a pattern would show others
than those that the context was read with, and of three digits.
"""

from contextlib import AbstractContextManager, nullcontext

import torch

UNCHANGED = nullcontext()
"""The context that changes nothing, made once."""


def widest_type(device: torch.device) -> torch.dtype:
    """The floating-point type with the most digits that a device has; Apple's GPUs (mps) have no float64.

    >>> widest_type(torch.device("cpu")), widest_type(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    return torch.float32 if device.type == "mps" else torch.float64


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Within this, numbers are computed in the types that they have, whatever autocast is on.

    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     with without_autocast(x.device):
    ...         inside = x @ x
    ...     outside = x @ x
    >>> inside.dtype, outside.dtype
    (torch.float32, torch.bfloat16)
    """
    kind = device.type
    if not ((kind == "cpu" or may_autocast(kind)) and torch.is_autocast_enabled(kind)):
        return UNCHANGED
    return torch.autocast(kind, enabled=False)


def may_autocast(kind: str) -> bool:
    """Return whether a device type has autocast; the compiler of torch 2.11 cannot trace torch's own function."""
    return kind != "meta" if torch.compiler.is_compiling() else torch.amp.is_autocast_available(kind)
