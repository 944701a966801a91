"""Names of options in messages: the arguments of Python's functions become the options of the command line."""

import re

OPTIONS = {
    r"\btruncate=True": "--truncate",
    r"\btarget=…": "--target",
    r"\bimages=…": "--image",
    r"\baudio=…": "--audio",
    r"\bnew_tokens=": "--new-tokens ",
}
"""Regular expressions of Python's arguments in messages, and the options that say the same on the command line."""


def in_options(message: str) -> str:
    """Return a message in which options of the command line stand for Python's arguments.

    >>> in_options("shorten it, or read only its beginning with truncate=True.")
    'shorten it, or read only its beginning with --truncate.'
    """
    for argument, option in OPTIONS.items():
        message = re.sub(argument, option, message)
    return message
