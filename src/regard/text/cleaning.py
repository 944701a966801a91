"""Clean texts, for training and for translation alike, so that a model sees the same characters in both."""

import re
from unicodedata import normalize

from regard.errors import InputError

SPACE = "▁"
"""SentencePiece's sign for a space, which it puts before every word. A ▁ in a text counts as a space."""

CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f\x80-\x84\x86-\x9f\ufeff]")
"""Control characters, except those that `str.split` treats as spaces, such as tabs; and the byte order mark."""


def clean_text(text: str) -> str:
    """Return a text without control characters, with composed letters and single spaces between its words.

    >>> clean_text("  ein\\u00a0 Hund\\r\\n")
    'ein Hund'
    """
    return " ".join(compose(without_control_characters(text)).replace(SPACE, " ").split())


def compose(text: str) -> str:
    """Compose the letters of a text: Unicode's normalisation form C, in which e and an accent become one character.

    >>> len("e\\u0301"), len(compose("e\\u0301"))
    (2, 1)
    """
    return normalize("NFC", text)


def without_control_characters(text: str) -> str:
    return CONTROL.sub("", text)


def checked_clean_text(text: str) -> str:
    """Clean a text; raise InputError if it has a lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text has a lone surrogate (U+{ord(text[error.start]):04X} at position {error.start + 1}), "
            "which UTF-8 cannot encode; remove it."
        ) from error
    return clean_text(text)
