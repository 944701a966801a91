"""Files that a user names: written whole, and refused in words where they cannot be."""

import os
from pathlib import Path

from regard.atomic_files import write_whole
from regard.errors import InputError, reason


def write_output(path: Path, content: str | bytes) -> Path:
    """Write a file in one piece: text (UTF-8) or bytes.

    Raises:
        InputError: the file cannot be written; what was there stays as it was.
    """
    try:
        write_whole(path, content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}; name another file.") from error
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
    folder = [] if path.exists() and not path.is_file() else [Path(os.path.realpath(path)).parent]
    if not all(os.access(place, os.W_OK) for place in (*folder, *[path] * path.exists())):
        raise InputError(f"cannot write {path}: writing there is not permitted; name another file.")
    return path
