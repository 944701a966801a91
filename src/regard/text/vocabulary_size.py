"""The number of pieces in the vocabulary for a text, small enough that every piece occurs often enough to be learned.

    size = min(58 · sqrt(pairs), 4 · letters + once² / 40, 32,000)
    letters = the number of different characters in the text
    once    = the number of letter trigrams that occur exactly once in the text

The first term is Heaps' law, by which the number of different words grows as the square root of the length of a text:
10,000 pieces for 29,000 sentence pairs, and 32,000 from 300,000 pairs on. The second term distinguishes natural text
from generated text. Natural text of any length has hundreds of trigrams that occur once. Text composed of few different
parts, such as names of numbers, dates or codes, has hardly any. It gets a few pieces for each letter. They are enough
for its parts, so that the model composes words that it has never seen.

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

MOST_PIECES = 32_000

MOST_LINES = 50_000
"""The largest number of lines whose letters and trigrams are counted."""


def vocabulary_size(lines: Iterable[str], n_pairs: int) -> int:
    """Return the number of pieces in the vocabulary for a text.

    Args:
        lines: clean lines, of which the first 50,000 are read; for a joint vocabulary, lines of both languages in turn.
        n_pairs: the number of pairs in the corpus.

    >>> vocabulary_size(["twenty-one", "thirty-one", "thirty-four", "twenty-four"] * 100, n_pairs=400)
    48
    """
    letters, trigrams = set[str](), Counter[str]()
    for line in islice(lines, MOST_LINES):
        letters.update(line)
        for word in line.split():
            spaced = f" {word} "  # so that the trigrams include those at the edges of the word
            trigrams.update(spaced[start : start + 3] for start in range(len(word)))
    letters.discard(" ")
    once = sum(count == 1 for count in trigrams.values())
    return max(1, round(min(58 * sqrt(n_pairs), 4 * len(letters) + once**2 / 40, MOST_PIECES)))
