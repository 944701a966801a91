"""Find the torch device with a given name."""

import torch

from regard.errors import InputError, nearest


def device_named(name: str | torch.device | None) -> torch.device:
    """Return the torch device with a name such as "cpu" or "cuda:1"; None = CUDA if found, else MPS, else the CPU."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name is None:
        return torch.device(next(kind for kind in available if available[kind]))
    kind = str(name).partition(":")[0]
    if kind not in available:
        close = nearest(kind, list(available), n=1)[0]
        raise InputError(f"there is no device {str(name)!r}; nearest: {close}; give cpu, cuda or mps.")
    if not available[kind]:
        found = ", ".join(kind for kind in available if available[kind])
        raise InputError(f"PyTorch finds no {kind} on this machine; it finds {found}.")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"{str(name)!r} is not a device; give a number after {kind}:, such as {kind}:0.") from error
    n_devices = torch.cuda.device_count() if kind == "cuda" else 1
    if device.index is not None and device.index >= n_devices:
        found = f"{kind}:0" if n_devices == 1 else f"{kind}:0 to {kind}:{n_devices - 1}"
        raise InputError(f"there is no device {str(name)!r}; PyTorch finds {found} on this machine.")
    return device
