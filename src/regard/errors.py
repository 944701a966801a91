"""The exception for unusable input, and functions that format error messages."""

from importlib import import_module
from typing import Any


class InputError(ValueError):
    """A text, name, number or file that the user gave cannot be used.

    The message says what was given, what is allowed, and what to do. The command line prints it as one line and exits
    with status 2.
    """


def nearest(name: str, valid: list[str], n: int = 3) -> list[str]:
    """Return `n` valid names, the most similar to `name` first; the first `n` valid names if none is similar.

    >>> nearest("L3H12", ["L3H0", "L3H1", "L4H9"], n=1)
    ['L3H1']
    """
    from difflib import get_close_matches

    return get_close_matches(name, valid, n=n, cutoff=0.4) or valid[:n]


def counted(count: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural.

    >>> counted(1, "row"), counted(3000, "query")
    ('1 row', '3,000 queries')
    """
    plural = noun if count == 1 else noun.removesuffix("y") + "ies" if noun.endswith("ry") else noun + "s"
    return f"{count:,} {plural}"


def reason(error: Exception) -> str:
    """Return the operating system's message for a file error, in lower case; without one, the exception's own message.

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
    """Import and return a module that is installed only with an extra of regard, such as regard[translation].

    Raises:
        InputError: the module is not installed.

    >>> import_extra("json", "translation").loads("[1]")
    [1]
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"this needs the package {error.name}, which is not installed; install it with "
            f"pip install 'regard[{extra}]'."
        ) from error
