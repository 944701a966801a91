"""Files of tensors, written completely or not at all."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from regard.atomic_files import whole
from regard.errors import InputError, needs, reason


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, completely or not at all.

    Args:
        metadata: texts to write with the tensors, by name.

    Raises:
        InputError: the file cannot be written; an earlier file stays as it was.
    """
    save = needs("safetensors.torch", "translation").save_file
    from safetensors import SafetensorError

    try:
        with whole(path) as beside:
            contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
            save(contiguous, beside, None if metadata is None else dict(metadata))
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"cannot write {path} ({reason(error)}); make room on its disk, or name another folder."
        ) from error
