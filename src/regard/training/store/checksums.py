"""Checksums of files."""

from hashlib import file_digest
from pathlib import Path
from typing import Any


def checksum(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": file_digest(file, "sha256").hexdigest()}
