"""Write a file that the user named, all or nothing, and say why if it cannot be written."""

import os
from pathlib import Path

from regard.atomic_files import write_atomically
from regard.errors import InputError, reason


def write_output(path: Path, content: str | bytes) -> Path:
    """Write text (as UTF-8) or bytes into a file, all or nothing.

    Raises:
        InputError: the file cannot be written; an older file of this name stays as it was.
    """
    try:
        write_atomically(path, content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}; name another file.") from error
    return path


def check_writable(path: Path) -> Path:
    """Return the path if a file can be written there; called before long work.

    Raises:
        InputError: its folder does not exist, the path is a folder, or writing is not permitted.
    """
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first or name another file.")
    folder = [] if path.exists() and not path.is_file() else [Path(os.path.realpath(path)).parent]
    if not all(os.access(place, os.W_OK) for place in (*folder, *[path] * path.exists())):
        raise InputError(f"cannot write {path}: writing there is not permitted; name another file.")
    return path
