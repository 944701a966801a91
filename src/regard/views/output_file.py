"""Write a file at a path that the user gave; check, before a long computation, that this is possible."""

import os
from pathlib import Path

from regard.atomic_files import write_atomically
from regard.errors import InputError, reason


def write_output(path: Path, content: str | bytes) -> Path:
    """Write text (as UTF-8) or bytes into a file and return the path.

    If the file cannot be written, InputError is raised and an existing file stays as it was.
    """
    try:
        write_atomically(path, content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}; name another file.") from error
    return path


def check_writable(path: Path) -> Path:
    """Return `path`; raise InputError if no file can be written there. Nothing is written."""
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first or name another file.")
    must_be_writable = [path] if path.exists() else []  # a read-only file is not replaced
    is_device = path.exists() and not path.is_file()  # such as /dev/stdout
    if not is_device:  # write_output puts a new file in the place of an old one, so the folder must be writable
        must_be_writable.append(Path(os.path.realpath(path)).parent)
    if not all(os.access(file_or_folder, os.W_OK) for file_or_folder in must_be_writable):
        raise InputError(f"cannot write {path}: writing there is not permitted; name another file.")
    return path
