"""Where models run."""

import torch

from regard.errors import InputError, nearest


def device_named(name: str | torch.device | None) -> torch.device:
    """A device by its name; None = the fastest there is.

    Raises:
        InputError: there is no such device, or not here.

    >>> device_named("cpu")
    device(type='cpu')
    """
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name is None:
        return torch.device(next(kind for kind in here if here[kind]))
    kind = str(name).partition(":")[0]
    if kind not in here:
        raise InputError(
            f"there is no device {str(name)!r}; nearest: {nearest(kind, list(here), n=1)[0]}; give cpu, cuda or mps."
        )
    if not here[kind]:
        found = ", ".join(kind for kind in here if here[kind])
        raise InputError(f"PyTorch finds no {kind} on this machine; it finds {found}.")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"{str(name)!r} is no device; after {kind}: comes its number, such as {kind}:0.") from error
    n = torch.cuda.device_count() if kind == "cuda" else 1
    if device.index is not None and device.index >= n:
        there = f"{kind}:0" if n == 1 else f"{kind}:0 to {kind}:{n - 1}"
        raise InputError(f"there is no device {str(name)!r}; PyTorch finds {there} on this machine.")
    return device
