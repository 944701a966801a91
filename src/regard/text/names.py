"""Names that a parallel text always translates by the same name, such as 톰 by Tom.

A name is a word with a capital letter that occurs within sentences and never without the capital. Its counterpart in
the other language is the substring of a word that occurs in the same pairs as the name:

    similarity = 2 · pairs with both / (pairs with the name + pairs with the counterpart)          (Dice)

Source: Melamed 2000, "Models of translational equivalence among words" (one-to-one assumption), for names alone.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from regard.text.parallel import Pair

MOST_PAIRS = 20_000

LEAST_PAIRS, LEAST_SIMILARITY = 5, 0.8
"""A name occurs in at least this many pairs, and has at least this similarity to its counterpart."""

MOST_NAMES = 100

MOST_LETTERS = 8
"""The largest number of letters of a counterpart."""

MOST_CANDIDATES = 20
"""The similarity to a name is computed for this many substrings: the most frequent ones in the pairs with the name."""

WORD = re.compile(r"[^\W\d_]+")
WITHIN_SENTENCE = re.compile(r"(?<=[^\W\d_][ ,] )[^\W\d_]{2,}|(?<=[^\W\d_] )[^\W\d_]{2,}")
"""Matches a word of two letters or more that follows another word, so that it is not the first of a sentence.

The first alternative matches the name in "Yes, Tom", the second the name in "Today Tom".
"""


def names_in(pairs: Iterable[Pair], capitals: int) -> dict[str, str]:
    """Find names in the first `MOST_PAIRS` pairs of texts; return {name in the source: name in the target}.

    Args:
        capitals: the side in which names have a capital letter: 0 = the sources, 1 = the targets.

    >>> pairs = [("톰은 왔다", "Today Tom came"), ("톰이 잤다", "Yes, Tom slept"), ("비가 왔다", "Then rain came")]
    >>> names_in(pairs * 5, capitals=1)
    {'톰': 'Tom'}
    """
    first_pairs = list(islice(pairs, MOST_PAIRS))
    texts = [pair[capitals] for pair in first_pairs]
    translations = [pair[1 - capitals] for pair in first_pairs]
    counts = Counter(word for text in texts for word in WITHIN_SENTENCE.findall(text) if word.istitle())
    lower_case_words = {word for text in texts for word in WORD.findall(text) if word.islower()}
    names = [name for name, n in counts.most_common() if n >= LEAST_PAIRS and name.lower() not in lower_case_words]
    target_of = dict[str, str]()
    for name in names[:MOST_NAMES]:
        with_name = [
            translation for text, translation in zip(texts, translations, strict=True) if name in WORD.findall(text)
        ]
        counterpart, similarity = most_similar(with_name, translations)
        if similarity >= LEAST_SIMILARITY:
            target_of |= {name: counterpart} if capitals == 0 else {counterpart: name}
    return target_of


def most_similar(with_name: list[str], translations: list[str]) -> tuple[str, float]:
    """Return the part of a word that is most similar to a name (the longest, if several are), and its similarity.

    Args:
        with_name: the translations of the texts that contain the name.
        translations: the translations of all texts.
    """
    counts = Counter(part for text in with_name for part in substrings(text))
    scored = [
        (2 * n / (len(with_name) + sum(part in text for text in translations)), len(part), part)
        for part, n in counts.most_common(MOST_CANDIDATES)
    ]
    similarity, _, part = max(scored, default=(0.0, 0, ""))
    return part, similarity


def substrings(text: str) -> set[str]:
    return {
        word[start:end]
        for word in WORD.findall(text)
        for start in range(len(word))
        for end in range(start + 1, min(start + MOST_LETTERS, len(word)) + 1)
    }
