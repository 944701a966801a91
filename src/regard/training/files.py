"""Writing files so that a reader, or the next run after a power cut, sees the old file or the new one."""

import os
import shutil
from collections.abc import Callable, Mapping
from hashlib import file_digest
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import needs


def facts(path: Path) -> dict[str, Any]:
    """What a manifest says of a file."""
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": file_digest(file, "sha256").hexdigest()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a safetensors file and force it to the disk."""
    save = needs("safetensors.torch", "translation").save_file
    save({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def write_synced(path: Path, content: str | bytes) -> None:
    """Write a file and force it to the disk."""
    with path.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file of another name beside, then give it its own: readers see the old one or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writing = path.parent / f".{path.name}.writing"
    write(writing)
    writing.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system has that notion."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def remove_folder(folder: Path) -> None:
    """Remove a checkpoint so that a half-removed one is never taken for one."""
    if folder.exists():
        going = folder.with_name(f".{folder.name}.going.writing")
        shutil.rmtree(going, ignore_errors=True)
        folder.replace(going)
        shutil.rmtree(going)
