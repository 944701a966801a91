"""Checksums of files, for manifests; and the removal and replacement of folders of checkpoints."""

import shutil
from hashlib import file_digest
from pathlib import Path
from typing import Any

REPLACED = ".replaced"
"""The end of the name of a folder whose place a new one is about to take."""


def checksum(path: Path) -> dict[str, Any]:
    """Return the size and the SHA-256 of a file, as a manifest has them."""
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": file_digest(file, "sha256").hexdigest()}


def remove_folder(folder: Path) -> None:
    """Rename a checkpoint's folder and then remove it, so that a half-removed folder never has the name of one."""
    if folder.exists():
        removed = folder.with_name(f".{folder.name}.going.writing")
        shutil.rmtree(removed, ignore_errors=True)
        folder.replace(removed)
        shutil.rmtree(removed)


def replace_folder(folder: Path, new: Path) -> None:
    """Rename a new folder to the name of an earlier one, which is removed afterwards.

    A process that is killed between the two renames leaves the earlier folder under a name that `restore_folders`
    knows.
    """
    earlier = folder.with_name(f".{folder.name}{REPLACED}")
    if folder.exists():
        shutil.rmtree(earlier, ignore_errors=True)
        folder.replace(earlier)
    new.replace(folder)
    shutil.rmtree(earlier, ignore_errors=True)


def restore_folders(parent: Path) -> None:
    """Rename back each folder that `replace_folder` renamed without putting the new one in its place."""
    for earlier in parent.glob(f".*{REPLACED}"):
        folder = parent / earlier.name.removeprefix(".").removesuffix(REPLACED)
        if folder.exists():
            shutil.rmtree(earlier, ignore_errors=True)
        else:
            earlier.replace(folder)
