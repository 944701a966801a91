"""How many pieces a vocabulary should have: as many as the text can teach.

    size = min(58 · sqrt(pairs), 4 · letters + once² / 40, 32,000)

A piece is learned from where it is seen. The first term is Heaps' law: words grow in number as the square root of the
text, 10,000 pieces for 29,000 pairs, 32,000 from 300,000 on. The second asks whether the text has an end: how many of
its stretches of three letters occur `once`. In what people write there are hundreds, be it a few lines or a million,
with capitals or without; next to none are in what is put together from few parts, such as names of numbers, dates or
codes. That gets a few pieces a letter, just enough for its parts: then what was never seen is made of what was.

                                         pairs    letters      once       size
    Multi30k, English                   29,000         79     2,102      9,877
    English and German, lower case      29,000         69     1,877      9,877
    Multi30k, German                     1,000         71     1,343      1,834
    numbers in English                   6,000         21         4         84
    numbers in Korean                    6,000         14        16         62

Source: Heaps 1978, section 7.5; for letting small corpora have few pieces: Sennrich & Zhang 2019, section 3.2.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from math import sqrt

MOST = 32_000
"""Pieces that even the largest corpus is content with."""

LINES = 50_000
"""Lines that are looked at."""


def vocabulary_size(lines: Iterable[str], n_pairs: int) -> int:
    """How many pieces suit a text.

    Args:
        lines: tidy lines; the first ones are looked at. For a joint vocabulary, both languages' in turn.
        n_pairs: how many pairs the whole corpus has.

    >>> vocabulary_size(["twenty-one", "thirty-one", "thirty-four", "twenty-four"] * 100, n_pairs=400)
    48
    """
    letters, stretches = set[str](), Counter[str]()
    for line in islice(lines, LINES):
        letters.update(line)
        for word in line.split():
            edged = f" {word} "
            stretches.update(edged[place : place + 3] for place in range(len(word)))
    letters.discard(" ")
    once = sum(count == 1 for count in stretches.values())
    return max(1, round(min(58 * sqrt(n_pairs), 4 * len(letters) + once**2 / 40, MOST)))
