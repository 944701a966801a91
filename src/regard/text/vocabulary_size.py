"""The number of pieces that suits a text: no more than the text can teach.

    size = min(58 · sqrt(pairs), 4 · letters + once² / 40, 32,000)

A model learns a piece from the places where it occurs. The first term is Heaps' law: the number of words grows as the
square root of the text, to 10,000 pieces for 29,000 pairs and 32,000 from 300,000 pairs on. The second term tells
natural text from generated text by the letter trigrams that occur `once`. Natural text has hundreds, in a few lines or
in a million, with capitals or without; text put together from few parts, such as names of numbers, dates or codes, has
next to none. Generated text gets a few pieces a letter, enough for its parts, so that the model composes what it has
never seen.

                                         pairs    letters      once       size
    Multi30k, English                   29,000         79     2,102      9,877
    English and German, lower case      29,000         69     1,877      9,877
    Multi30k, German                     1,000         71     1,343      1,834
    numbers in English                   6,000         21         4         84
    numbers in Korean                    6,000         14        16         62

Source: Heaps 1978, section 7.5; for small vocabularies for small corpora: Sennrich & Zhang 2019, section 3.2.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from math import sqrt

MOST = 32_000
"""The most pieces of any vocabulary."""

LINES = 50_000
"""Lines whose letters and trigrams are counted."""


def vocabulary_size(lines: Iterable[str], n_pairs: int) -> int:
    """Return the number of pieces that suits a text.

    Args:
        lines: clean lines, of which the first are read; for a joint vocabulary, lines of both languages in turn.
        n_pairs: the number of pairs in the whole corpus.

    >>> vocabulary_size(["twenty-one", "thirty-one", "thirty-four", "twenty-four"] * 100, n_pairs=400)
    48
    """
    letters, trigrams = set[str](), Counter[str]()
    for line in islice(lines, LINES):
        letters.update(line)
        for word in line.split():
            edged = f" {word} "
            trigrams.update(edged[place : place + 3] for place in range(len(word)))
    letters.discard(" ")
    once = sum(count == 1 for count in trigrams.values())
    return max(1, round(min(58 * sqrt(n_pairs), 4 * len(letters) + once**2 / 40, MOST)))
