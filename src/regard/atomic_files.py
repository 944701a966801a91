"""Atomic files: a reader, or the next run after a power cut, finds the old file or the new one, never a part."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file, which replaces the file at `path` once the block has written it to the disk.

    If anything fails, the file stays as it was and the temporary file is removed. A path that is not a regular file (a
    pipe, a terminal, /dev/null) is yielded itself.

    Raises:
        OSError: the file cannot be written.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))  # the target of a link is replaced, and not the link
    beside = path.with_name(f".{token_hex(8)}.writing")
    beside.touch(exist_ok=False)
    usual = beside.stat().st_mode
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.chmod(path.stat().st_mode if path.exists() else usual)  # the block may have replaced the temporary file
        beside.replace(path)
        sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text (as UTF-8) or bytes to a file, completely or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    with whole(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, on systems that can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
