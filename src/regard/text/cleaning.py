"""Tidy text: words with single spaces between them, and nothing that cannot be printed.

A text is tidied before it is learned from, and again before it is translated, so that both are of the same letters.
"""

import re

from regard.errors import InputError

SPACE = "▁"
"""How SentencePiece writes a space, which it puts in front of every word; in a text it is a space, then."""

CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f\x80-\x84\x86-\x9f\ufeff]")
"""Characters that are no text; those that separate words are spaces to `str.split`."""


def tidied(text: str) -> str:
    """Text without control characters, with single spaces between its words.

    >>> tidied("  ein\\u00a0 Hund\\r\\n")
    'ein Hund'
    """
    return " ".join(printed(text).replace(SPACE, " ").split())


def printed(text: str) -> str:
    """Text without control characters.

    >>> printed("\\ufeffein\\x00 Hund")
    'ein Hund'
    """
    return CONTROL.sub("", text)


def refuse_halves(text: str) -> None:
    """Refuse half of a surrogate pair, which Python's texts may hold and no UTF-8 does."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text has half a character (U+{ord(text[error.start]):04X} at place {error.start + 1}), "
            "which UTF-8 cannot write; remove it."
        ) from error
