"""Clean text: words with single spaces between them, without control characters.

Texts are cleaned before training and again before translation, so that both have the same letters.
"""

import re

from regard.errors import InputError

SPACE = "▁"
"""SentencePiece's sign for a space, which it puts before every word; in a text it counts as a space."""

CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f\x80-\x84\x86-\x9f\ufeff]")
"""Control characters; those that separate words are spaces to `str.split` and not listed."""


def tidied(text: str) -> str:
    """Return the text without control characters, with single spaces between its words.

    >>> tidied("  ein\\u00a0 Hund\\r\\n")
    'ein Hund'
    """
    return " ".join(printed(text).replace(SPACE, " ").split())


def printed(text: str) -> str:
    """Return the text without control characters.

    >>> printed("\\ufeffein\\x00 Hund")
    'ein Hund'
    """
    return CONTROL.sub("", text)


def refuse_halves(text: str) -> None:
    """Raise InputError if the text has half of a surrogate pair, which Python's strings may hold and UTF-8 may not."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text has half a character (U+{ord(text[error.start]):04X} at place {error.start + 1}), "
            "which UTF-8 cannot write; remove it."
        ) from error
