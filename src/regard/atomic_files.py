"""Replace files atomically: after a crash or power cut, a file has its complete old or its complete new content."""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which replaces the file at `path` when the `with` block ends.

    If the block raises, or the process exits, the file at `path` is unchanged and the temporary file is deleted. If
    `path` exists and is not a regular file (a pipe, a terminal, /dev/null), `path` itself is yielded.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))  # replace the target of a symbolic link, not the link
    temporary = path.with_name(f".{token_hex(8)}.writing")
    delete = partial(temporary.unlink, missing_ok=True)
    atexit.register(delete)
    temporary.touch(exist_ok=False)
    default_mode = temporary.stat().st_mode
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        # The permissions are set after the with-block, since the block may put another file at the temporary path.
        temporary.chmod(path.stat().st_mode if path.exists() else default_mode)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        delete()
        atexit.unregister(delete)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a text (as UTF-8) or bytes to a file, completely or not at all."""
    with atomic_replace(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def sync_folder(folder: Path) -> None:
    """Write a folder's list of file names to the disk, if the system can, so that a new name survives a power cut."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
