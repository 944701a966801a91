"""Checksums of files, and removing or replacing a checkpoint's folder so that a kill at any moment does no harm."""

import shutil
from hashlib import file_digest
from pathlib import Path
from typing import Any

REPLACED = ".replaced"
"""The suffix of a folder's name while `replace_folder` replaces it."""


def checksum(path: Path) -> dict[str, Any]:
    """Return the size and the SHA-256 of a file: {"size": bytes, "sha256": hexadecimal digits}."""
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": file_digest(file, "sha256").hexdigest()}


def remove_folder(folder: Path) -> None:
    """Remove a checkpoint's folder, renaming it first: a half-removed folder must not be read as a checkpoint."""
    if folder.exists():
        removed = folder.with_name(f".{folder.name}.going.writing")
        shutil.rmtree(removed, ignore_errors=True)
        folder.replace(removed)
        shutil.rmtree(removed)


def replace_folder(folder: Path, new: Path) -> None:
    """Rename the folder `new` to `folder`; a folder that already has this name is removed.

    The earlier folder is renamed first, and removed last. If the process is killed between the two renames,
    `restore_folders` gives the earlier folder its name back.
    """
    earlier = folder.with_name(f".{folder.name}{REPLACED}")
    if folder.exists():
        shutil.rmtree(earlier, ignore_errors=True)
        folder.replace(earlier)
    new.replace(folder)
    shutil.rmtree(earlier, ignore_errors=True)


def restore_folders(parent: Path) -> None:
    """Restore the name of each earlier folder that a killed `replace_folder` left; remove it if the new one exists."""
    for earlier in parent.glob(f".*{REPLACED}"):
        folder = parent / earlier.name.removeprefix(".").removesuffix(REPLACED)
        if folder.exists():
            shutil.rmtree(earlier, ignore_errors=True)
        else:
            earlier.replace(folder)
