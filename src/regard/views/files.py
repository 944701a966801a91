"""Writing files whole: a reader sees the old file or the new one, never a part of it."""

import os
import tempfile
from pathlib import Path

from regard.errors import InputError


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file in one piece: text (UTF-8) or bytes beside it first, then the name changed.

    Raises:
        InputError: the file cannot be written; what was there stays as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
        temporary.chmod(path.stat().st_mode if path.exists() else 0o666 & ~umask())
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}; name another file."
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return path


def writable(path: Path) -> Path:
    """The path, once it is known that a file can be written there; asked before long work.

    Raises:
        InputError: its folder does not exist, or it is a folder, or writing is forbidden.
    """
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first or name another file.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: writing there is not permitted; name another file.")
    return path


def umask() -> int:
    """The permissions that this process leaves out of new files."""
    current = os.umask(0)
    os.umask(current)
    return current
