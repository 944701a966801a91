"""Files of tensors, written completely or not at all, with a checksum of their content.

The file is a safetensors file. Its metadata has under `CHECKSUM` the SHA-256 of all other metadata and of every
tensor's name, type, shape and bytes, so that a reader finds a single changed byte.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.atomic_files import whole
from regard.errors import InputError, needs, reason

CHECKSUM = "sha256"
"""The name of the checksum among a file's metadata."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, completely or not at all.

    Args:
        metadata: texts to write with the tensors, by name.

    Raises:
        InputError: the file cannot be written; an earlier file stays as it was.
    """
    save = needs("safetensors.torch", "translation").save_file
    from safetensors import SafetensorError

    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    named = dict(metadata or {})
    try:
        with whole(path) as beside:
            save(contiguous, beside, {**named, CHECKSUM: content_checksum(contiguous, named)})
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"cannot write {path} ({reason(error)}); make room on its disk, or name another folder."
        ) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a file that `write_tensors` wrote.

    Raises:
        InputError: the file cannot be read, is damaged, or is not one that regard wrote.
    """
    with opened(path) as file:
        metadata = dict(file.metadata() or {})
        written = metadata.pop(CHECKSUM, None)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    if written is None:
        raise InputError(
            f"{path} has no checksum: regard did not write it, or an earlier version did; give a file that this regard "
            "wrote."
        )
    if written != content_checksum(tensors, metadata):
        raise InputError(f"{path} is damaged: it is not what was written (its SHA-256 differs); copy it again.")
    return tensors, metadata


def tensor_shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a safetensors file by its name, without reading the tensors.

    Raises:
        InputError: the file cannot be read, or is damaged.
    """
    with opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (no mapping)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file; an error of the file becomes an InputError that names it."""
    needs("safetensors.torch", "translation")
    from safetensors import SafetensorError, safe_open

    try:
        path.open("rb").close()  # raises an OSError with the reason if the file cannot be read
        with safe_open(path, "pt") as file:
            yield file
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error
    except SafetensorError as error:
        raise InputError(f"{path} is damaged, or is no safetensors file; copy it again.") from error


def content_checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of metadata and of contiguous tensors on a CPU."""
    digest = hashlib.sha256(repr(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
