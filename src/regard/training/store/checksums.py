"""Checksums of files; removing and replacing folders so that no damaged folder remains if the process is killed."""

import shutil
from hashlib import file_digest
from pathlib import Path
from typing import Any

REPLACED = ".replaced"
"""The suffix that `replace_folder` adds to the old folder's name until the new folder is in place."""


def checksum(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": file_digest(file, "sha256").hexdigest()}


def remove_folder(folder: Path) -> None:
    """Rename the folder of a checkpoint, then remove it: a half-removed folder is never read as a checkpoint."""
    if folder.exists():
        removed = folder.with_name(f".{folder.name}.going.writing")
        shutil.rmtree(removed, ignore_errors=True)
        folder.replace(removed)
        shutil.rmtree(removed)


def replace_folder(folder: Path, new: Path) -> None:
    """Rename the folder `new` to `folder`; an earlier folder with this name is removed.

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
    """Repair the folders in `parent` if a process was killed during `replace_folder`."""
    for earlier in parent.glob(f".*{REPLACED}"):
        folder = parent / earlier.name.removeprefix(".").removesuffix(REPLACED)
        if folder.exists():
            shutil.rmtree(earlier, ignore_errors=True)
        else:
            earlier.replace(folder)
