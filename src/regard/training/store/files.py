"""What a training keeps on the disk: what is said of a file, folders removed at once."""

import shutil
from hashlib import file_digest
from pathlib import Path
from typing import Any


def facts(path: Path) -> dict[str, Any]:
    """What a manifest says of a file."""
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": file_digest(file, "sha256").hexdigest()}


def remove_folder(folder: Path) -> None:
    """Remove a checkpoint so that a half-removed one is never taken for one."""
    if folder.exists():
        going = folder.with_name(f".{folder.name}.going.writing")
        shutil.rmtree(going, ignore_errors=True)
        folder.replace(going)
        shutil.rmtree(going)
