"""The words in which a translation and its reference differ."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
"""The letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""

WORD = re.compile(rf"\s+|[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]|.")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text, and whether it differs from the other text."""

    text: str
    differs: bool


def differences(first: str, second: str) -> tuple[list[Part], list[Part]]:
    """Split two texts into the parts that are equal and the parts that differ.

    >>> [part.text for part in differences("the cat sat", "the dog sat")[0] if part.differs]
    ['cat']
    """
    words, other_words = WORD.findall(first), WORD.findall(second)
    first_parts, second_parts = [], []
    for kind, a, b, c, d in SequenceMatcher(None, words, other_words, autojunk=False).get_opcodes():
        first_parts += [Part("".join(words[a:b]), kind != "equal")] if b > a else []
        second_parts += [Part("".join(other_words[c:d]), kind != "equal")] if d > c else []
    return first_parts, second_parts


def nearest_reference(hypothesis: str, references: Sequence[str]) -> str:
    """Return the reference with the largest ratio of common words to a translation; the first of several equal ones."""
    words = WORD.findall(hypothesis)
    return max(references, key=lambda text: SequenceMatcher(None, words, WORD.findall(text), autojunk=False).ratio())
