"""What regard raises where something it was given cannot be used, told from a bug by its kind; and words to say so."""

from importlib import import_module
from typing import Any


class InputError(ValueError):
    """A text, name, number or file that cannot be used; the message says what was given, what must hold, what to do.

    The command line prints the message as one line and exits with status 2.
    """


def nearest(name: str, valid: list[str], n: int = 3) -> list[str]:
    """The valid names most like a name that is not one, best first; the first ones where none is like it.

    >>> nearest("L3H12", ["L3H0", "L3H1", "L4H9"], n=1)
    ['L3H1']
    """
    from difflib import get_close_matches

    return get_close_matches(name, valid, n=n, cutoff=0.4) or valid[:n]


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(3000, "query")
    ('1 row', '3,000 queries')
    """
    plural = noun if count == 1 else noun.removesuffix("y") + "ies" if noun.endswith("ry") else noun + "s"
    return f"{count:,} {plural}"


def reason(error: Exception) -> str:
    """Why a file could not be read or written, in the system's words if it has any.

    >>> reason(FileNotFoundError(2, "No such file or directory")), reason(EOFError("it ends too early"))
    ('no such file or directory', 'it ends too early')
    """
    said = getattr(error, "strerror", None)
    return said.lower() if said else str(error)


def first_words(error: Exception) -> str:
    """What an error says before it goes into detail, on one line.

    >>> first_words(ValueError("it takes one of:\\n(1) a tokenizer\\n(2) words\\n\\nSee the manual"))
    'it takes one of: (1) a tokenizer (2) words'
    """
    said = " ".join(str(error).strip().split("\n\n")[0].split()).rstrip(".")
    return said if said and isinstance(error, OSError | ValueError) else f"{type(error).__name__} {said}".strip()


def needs(module: str, extra: str) -> Any:
    """A module that comes with one of regard's extras, imported when it is used.

    Raises:
        InputError: it is not installed.

    >>> needs("json", "translation").loads("[1]")
    [1]
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"this needs the package {error.name}, which is not installed; install it with "
            f"pip install 'regard[{extra}]'."
        ) from error
