"""Checksums of files, for manifests; and the removal of folders of checkpoints."""

import shutil
from hashlib import file_digest
from pathlib import Path
from typing import Any


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
