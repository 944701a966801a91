"""The JSON of a request to translate texts, and the JSON of the answer."""

from collections.abc import Sequence
from typing import Any

from regard.errors import InputError
from regard.translation.alignment import Alignment
from regard.translation.translation import DIGITS, Translation, remark_record, rounded_chrf

MOST_TEXTS, MOST_CHARACTERS = 256, 10_000
"""The most texts in a request, and the most characters in a text."""


def texts_of(content: Any) -> list[str]:
    """Check the JSON of a request, and return the texts to translate."""
    if not isinstance(content, dict) or set(content) != {"texts"}:
        raise InputError('a request must be {"texts": ["…", …]}, with no other keys.')
    texts = content["texts"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts must be a list of strings.")
    if len(texts) > MOST_TEXTS:
        raise InputError(
            f"a request has {len(texts):,} texts; at most {MOST_TEXTS:,} are allowed: send several requests."
        )
    for number, text in enumerate(texts, 1):
        if len(text) > MOST_CHARACTERS:
            raise InputError(f"text {number} has {len(text):,} characters; a text has at most {MOST_CHARACTERS:,}.")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"text {number} has a lone surrogate, half of a character in UTF-16; remove it.")
    return texts


def answer_to(translations: Sequence[Translation], alignments: Sequence[Alignment]) -> dict[str, Any]:
    return {
        "translations": [
            {
                "text": translation.text,
                "score": round(translation.mean_log_probability, DIGITS),
                "expected_chrf": rounded_chrf(translation),
                "alignment": [list(pair) for pair in sorted(alignment.pairs)],
                **remark_record(translation),
            }
            for translation, alignment in zip(translations, alignments, strict=True)
        ]
    }
