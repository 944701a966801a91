"""How many pieces a vocabulary should have: as many as the text can teach.

    size = min(58 · sqrt(pairs), 4 · letters + 16 · once² / different, 32,000)

A piece is learned from where it is seen. The first term is Heaps' law: words grow in number as the square root of the
text, 10,000 pieces for 29,000 pairs, 32,000 from 300,000 on. The second asks whether the text has an end. Of its
stretches of three letters, some occur `once`: about a quarter of all `different` ones, however long a text of people's
writing is, and next to none in one that is put together from few parts, such as names of numbers, dates or codes. The
latter gets a few pieces a letter, just enough for its parts: then what was never seen is made of what was.

                                      pairs    letters   different      once       size
    Multi30k, English                29,000         79       7,575     2,102      9,649
    Multi30k, German                  1,000         71       3,893     1,343      1,834
    numbers in English                6,000         21         108         4         86
    numbers in Korean                 6,000         14         440        16         65

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
    letters, stretches, n_lines = set[str](), Counter[str](), 0
    for line in islice(lines, LINES):
        n_lines += 1
        letters.update(line)
        for word in line.split():
            edged = f" {word} "
            stretches.update(edged[place : place + 3] for place in range(len(word)))
    letters.discard(" ")
    once = sum(count == 1 for count in stretches.values())
    longer = sqrt(max(n_pairs / max(n_lines, 1), 1))  # of a text that has no end there is more behind these lines
    measured = 4 * len(letters) + 16 * once**2 / max(len(stretches), 1) * longer
    return max(1, round(min(58 * sqrt(n_pairs), measured, MOST)))
