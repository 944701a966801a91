"""The content of a request to translate, and the answer to it."""

from collections.abc import Sequence
from typing import Any

from regard.errors import InputError
from regard.translation.alignment import Alignment
from regard.translation.translation import Translation

MOST_TEXTS, MOST_CHARACTERS = 256, 10_000
"""The most texts of a request, and the most characters of a text."""

DIGITS = 6
"""The number of decimals of a score, about as many as float32 has."""


def texts_of(content: Any) -> list[str]:
    """Check the JSON of a request, and return the texts to translate.

    Args:
        content: the request's body, read as JSON.

    Raises:
        InputError: the content is not {"texts": ["…", …]}, or there are too many texts, or a text is too long.
    """
    if not isinstance(content, dict) or set(content) != {"texts"}:
        raise InputError('a request is {"texts": ["…", …]}, with nothing else in it.')
    texts = content["texts"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts must be a list of strings.")
    if len(texts) > MOST_TEXTS:
        raise InputError(f"{len(texts):,} texts were sent; a request has at most {MOST_TEXTS:,}: send several.")
    for number, text in enumerate(texts, 1):
        if len(text) > MOST_CHARACTERS:
            raise InputError(f"text {number} has {len(text):,} characters; a text has at most {MOST_CHARACTERS:,}.")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"text {number} has half of a surrogate pair, which is no character.")
    return texts


def answer_to(translations: Sequence[Translation], alignments: Sequence[Alignment]) -> dict[str, Any]:
    """Return the answer to a request, as values that `json.dumps` accepts."""
    return {
        "translations": [
            {
                "text": one.text,
                "score": round(one.mean_log_probability, DIGITS),
                "alignment": [list(pair) for pair in sorted(alignment.pairs)],
                "untranslated": one.untranslated,
            }
            for one, alignment in zip(translations, alignments, strict=True)
        ]
    }
