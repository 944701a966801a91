"""Read and write safetensors files with a checksum of their content.

The metadata entry `CHECKSUM` is the SHA-256 of all other metadata and of every tensor's name, dtype, shape and
bytes, so `read_tensors` detects a single changed byte.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.atomic_files import atomic_replace
from regard.errors import InputError, import_extra, reason

CHECKSUM = "sha256"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors and metadata to a safetensors file, completely or not at all."""
    save = import_extra("safetensors.torch", "translation").save_file
    from safetensors import SafetensorError

    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    texts = dict(metadata or {})
    try:
        with atomic_replace(path) as temporary:
            save(contiguous, temporary, {**texts, CHECKSUM: content_checksum(contiguous, texts)})
    except (SafetensorError, OSError) as error:
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; name a file in it.") from error
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first.") from error
        raise InputError(
            f"cannot write {path} ({reason(error)}); make room on its disk, or name another folder."
        ) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file that `write_tensors` wrote; return its tensors, and its metadata without the checksum."""
    with open_tensor_file(path) as file:
        metadata = dict(file.metadata() or {})
        stored_checksum = metadata.pop(CHECKSUM, None)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (the file is not a mapping)
    if stored_checksum is None:
        raise InputError(
            f"{path} has no checksum: regard did not write it, or an earlier version did; give a file that this regard "
            "wrote."
        )
    if stored_checksum != content_checksum(tensors, metadata):
        raise InputError(f"{path} is damaged: it is not what was written (its SHA-256 differs); copy it again.")
    return tensors, metadata


def tensor_shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in a safetensors file, by the tensor's name, without reading the tensors."""
    with open_tensor_file(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (the file is not a mapping)


@contextmanager
def open_tensor_file(path: Path) -> Iterator[Any]:
    """Open a safetensors file for a `with` block; an error of the file is raised as an InputError with its path."""
    import_extra("safetensors.torch", "translation")
    from safetensors import SafetensorError, safe_open

    try:
        path.open("rb").close()  # raises an OSError with the reason if the file cannot be read
        with safe_open(path, "pt") as file:
            yield file
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error
    except SafetensorError as error:
        raise InputError(f"{path} is damaged, or is not a safetensors file; copy it again.") from error


def content_checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256, in hexadecimal, of metadata and contiguous tensors on the CPU."""
    digest = hashlib.sha256(repr(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
