"""Writing files whole: a reader, or the next run after a power cut, sees the old file or the new one, never a part."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name beside a file's own to write to; what was written takes the file's place once all of it is on the disk.

    Where anything fails, the file stays as it was, and nothing is left beside it. What is no file (a pipe, a terminal,
    /dev/null) is written to itself.

    Raises:
        OSError: the file cannot be written.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))  # what a link leads to is replaced, and not the link
    beside = path.with_name(f".{token_hex(8)}.writing")
    beside.touch(exist_ok=False)
    usual = beside.stat().st_mode
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.chmod(path.stat().st_mode if path.exists() else usual)  # some write into a new file of their own
        beside.replace(path)
        sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text (UTF-8) or bytes as a file, whole.

    Raises:
        OSError: the file cannot be written.
    """
    with whole(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system has that notion."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
