"""Which words of a translation are not in its reference, and which of the reference's it lacks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

ONE_BY_ONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
"""Letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese, which are written without spaces between words."""

WORD = re.compile(rf"\s+|[{ONE_BY_ONE}]|[^\W{ONE_BY_ONE}]+|[^\w\s]|.")


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a text, and whether the other text has something else there."""

    text: str
    differs: bool


def differences(first: str, second: str) -> tuple[list[Part], list[Part]]:
    """Both texts in parts that the other one has and has not.

    >>> [part.text for part in differences("the cat sat", "the dog sat")[0] if part.differs]
    ['cat']
    """
    words, others = WORD.findall(first), WORD.findall(second)
    mine, theirs = [], []
    for kind, a, b, c, d in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        mine += [Part("".join(words[a:b]), kind != "equal")] if b > a else []
        theirs += [Part("".join(others[c:d]), kind != "equal")] if d > c else []
    return mine, theirs


def nearest_reference(hypothesis: str, references: Sequence[str]) -> str:
    """The reference that has most in common with a translation, the first of equals."""
    words = WORD.findall(hypothesis)
    return max(references, key=lambda one: SequenceMatcher(None, words, WORD.findall(one), autojunk=False).ratio())
