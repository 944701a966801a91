"""The words in which a translation and its reference differ."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
"""The letters of scripts that have no spaces between words (Thai, Lao, Burmese, Khmer, Japanese, Chinese), as ranges
in a regular expression."""

WORD = re.compile(rf"\s+|[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")
"""Matches several white-space characters; one letter of a script without spaces; one word (letters, digits and _ of
other scripts); or one punctuation mark."""


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive words of one of two texts, with white space; `differs` = the words are not in the other text."""

    text: str
    differs: bool


def differences(first: str, second: str) -> tuple[list[Part], list[Part]]:
    """Return the equal and differing parts of the first text, and of the second text.

    >>> [part.text for part in differences("the cat sat", "the dog sat")[0] if part.differs]
    ['cat']
    """
    words, other_words = WORD.findall(first), WORD.findall(second)
    first_parts, second_parts = [], []
    matcher = SequenceMatcher(None, words, other_words, autojunk=False)
    for kind, start, stop, other_start, other_stop in matcher.get_opcodes():
        if stop > start:
            first_parts.append(Part("".join(words[start:stop]), kind != "equal"))
        if other_stop > other_start:
            second_parts.append(Part("".join(other_words[other_start:other_stop]), kind != "equal"))
    return first_parts, second_parts


def nearest_reference(hypothesis: str, references: Sequence[str]) -> str:
    """Return the reference for which 2 × (words in common with the translation) / (words of both texts) is largest."""
    words = WORD.findall(hypothesis)
    return max(references, key=lambda text: SequenceMatcher(None, words, WORD.findall(text), autojunk=False).ratio())
