"""Tensors in a file, written whole."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from regard.atomic_files import whole
from regard.errors import InputError, needs, reason


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as a safetensors file, whole.

    Args:
        metadata: texts to keep beside them, by name.

    Raises:
        InputError: the file cannot be written; what was there stays as it was.
    """
    save = needs("safetensors.torch", "translation").save_file
    from safetensors import SafetensorError

    try:
        with whole(path) as beside:
            laid_out = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
            save(laid_out, beside, None if metadata is None else dict(metadata))
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"cannot write {path} ({reason(error)}); make room on its disk, or name another folder."
        ) from error
