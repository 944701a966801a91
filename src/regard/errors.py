"""The exception for unusable input, and functions that format error messages."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.visible_text import escape_controls

LONGEST_MESSAGE = 1_000
"""The most characters of an error message; of a longer message, the middle is left out."""


class InputError(ValueError):
    """A text, name, number or file that the user gave cannot be used.

    The message says what was given, what is allowed, and what to do. The command line prints it as one line and exits
    with status 2. It may contain names and values from a file, so control characters are shown by their codes, and a
    very long message is shortened.
    """

    def __init__(self, message: str) -> None:
        line = escape_controls(message)
        if len(line) > LONGEST_MESSAGE:
            line = f"{line[: LONGEST_MESSAGE // 2]} … {line[-LONGEST_MESSAGE // 3 :]}"
        super().__init__(line)


class TooLongError(InputError):
    """A text is longer than a model reads.

    Args:
        problem: how long the text is, and how long it may be.
        remedy: what to do, other than to pass truncate=True.
        n_tokens: how many tokens or pieces the text has.
        limit: how many the model reads.
    """

    def __init__(self, problem: str, remedy: str, n_tokens: int, limit: int) -> None:
        super().__init__(f"{problem}; {remedy}, or read only its beginning with truncate=True.")
        self.n_tokens, self.limit = n_tokens, limit
        self.message_without_truncate = f"{problem}; {remedy}."
        """The message for users who cannot pass truncate=True, such as users of `regard explore`."""


def nearest(name: str, valid: list[str], n: int = 3) -> list[str]:
    """Return `n` valid names, the most similar to `name` first; the first `n` valid names if none is similar.

    >>> nearest("L3H12", ["L3H0", "L3H1", "L4H9"], n=1)
    ['L3H1']
    """
    from difflib import get_close_matches

    return get_close_matches(name, valid, n=n, cutoff=0.4) or valid[:n]


def missing_file(path: Path) -> str:
    """Return a message without its full stop: there is no file at `path`, but similar names are in its folder."""
    if not path.parent.is_dir():
        return f"there is no file {path}, and no folder {path.parent}"
    names = sorted(file.name for file in path.parent.iterdir() if file.is_file())
    return f"there is no file {path}; " + (
        f"nearest: {', '.join(nearest(path.name, names))}" if names else "no file is in that folder"
    )


def refuse_missing(path: Path) -> None:
    """Raise InputError if there is no file or folder at `path`; the message has similar names of its folder."""
    if not path.exists():
        raise InputError(f"{missing_file(path)}.")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun in the singular or plural; plural None = the regular plural of the noun.

    >>> counted(1, "row"), counted(3000, "query")
    ('1 row', '3,000 queries')
    """
    if plural is None:
        plural = noun.removesuffix("y") + "ies" if noun.endswith("ry") else noun + "s"
    return f"{count:,} {noun if count == 1 else plural}"


def reason(error: Exception) -> str:
    """Return the operating system's message for a file error, in lower case; if there is none, the exception's text.

    >>> reason(FileNotFoundError(2, "No such file or directory")), reason(EOFError("it ends too early"))
    ('no such file or directory', 'it ends too early')
    """
    message = getattr(error, "strerror", None)
    return message.lower() if message else str(error)


def first_paragraph(error: Exception) -> str:
    """Return the first paragraph of an exception's message on one line, without a final full stop.

    The name of the class comes first if the message is empty, or if the class is neither an OSError nor a ValueError.

    >>> first_paragraph(ValueError("it takes one of:\\n(1) a tokenizer\\n(2) words\\n\\nSee the manual"))
    'it takes one of: (1) a tokenizer (2) words'
    """
    message = " ".join(str(error).strip().split("\n\n")[0].split()).rstrip(".")
    if message and isinstance(error, OSError | ValueError):
        return message
    return f"{type(error).__name__} {message}".strip()


def import_extra(module: str, extra: str) -> Any:
    """Import a module that only an extra of regard installs; `extra` names the extra, or several, comma-separated."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"this needs the package {error.name}, which is not installed; install it with "
            f"pip install 'regard[{extra}]'."
        ) from error


def require_packages(packages: Sequence[str], extra: str) -> None:
    """Raise InputError unless all packages are installed; `extra` names the extras of regard that install them."""
    missing = [package for package in packages if find_spec(package) is None]
    if not missing:
        return
    names = " and ".join(", ".join(missing).rsplit(", ", 1))
    is_one = len(missing) == 1
    raise InputError(
        f"this needs the {'package' if is_one else 'packages'} {names}, which {'is' if is_one else 'are'} not "
        f"installed; install {'it' if is_one else 'them'} with pip install 'regard[{extra}]'."
    )
