"""BPE-dropout: texts that are cut into pieces in another way whenever they are learned from.

Pieces are made of letters by merges, the most frequent first; of these, each is left out with some probability, and not
tried again. So a model sees a word now whole and now in parts, learns what the parts mean, and does not know a small
corpus by heart as soon.

The algorithm is SentencePiece's, whose draws are others in every process; here they follow from a key, so that a
training that goes on sees what it would have seen.

Source: Provilkov, Emelianenko & Voita 2020, "BPE-Dropout", section 3.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.text.cleaning import SPACE
from regard.text.corpus import Ids, Lengths, Side
from regard.text.keyed_random import Numbers, shares
from regard.text.vocabulary import EOS, Vocabulary

NEVER = 2**31
"""The turn of two symbols that are no piece together."""


class BPEDropout:
    """Cuts the texts of one language anew.

    Args:
        probability: of each merge to be left out.
        max_tokens: a text that would be of more pieces stays as it is.

    >>> vocabulary = Vocabulary.train(["the cat sat", "the mat"] * 9, n_tokens=20)
    >>> ids = np.array(vocabulary.encode("the cat"), np.uint16)
    >>> anew, lengths = BPEDropout(vocabulary, probability=1.0, max_tokens=9)(ids, np.array([len(ids)]), np.uint64(5))
    >>> vocabulary.pieces(anew.tolist())
    ['▁', 't', 'h', 'e', '▁', 'c', 'a', 't']
    """

    def __init__(self, vocabulary: Vocabulary, probability: float, max_tokens: int) -> None:
        self.probability, self.max_tokens = probability, max_tokens
        pieces = vocabulary.pieces(range(len(vocabulary)))
        self.letters, self.merges = spellings(pieces), Merges(pieces, vocabulary.scores())
        self.begins = np.array(pieces) == SPACE

    def __call__(self, ids: Ids, lengths: Lengths, key: np.uint64) -> tuple[Ids, Lengths]:
        """Texts that lie one after the other, cut anew; another key cuts them in another way.

        Args:
            ids: of all texts; each begins with ▁, as SentencePiece writes it.
            lengths: how many of the ids each text has.
        """
        text = np.repeat(np.arange(len(lengths)), lengths)
        letters, n_letters = self.letters.rows(ids.astype(np.int64))
        text_of_letter = np.repeat(text, n_letters)
        word = np.cumsum(self.begins[letters]) - 1
        symbols, first_letter = self.merged(letters.astype(np.int64), word, key)
        text_of_symbol = text_of_letter[first_letter]
        fits = np.bincount(text_of_symbol, minlength=len(lengths)) <= self.max_tokens
        anew, as_before = fits[text_of_symbol], ~fits[text]
        text_of = np.concatenate([text_of_symbol[anew], text[as_before]])
        found = np.concatenate([symbols[anew].astype(ids.dtype), ids[as_before]])
        return found[np.argsort(text_of, kind="stable")], np.bincount(text_of, minlength=len(lengths))

    def merged(self, symbols: Numbers, word: Numbers, key: np.uint64) -> tuple[Numbers, Numbers]:
        """The pieces that the letters of words become, and the place of each one's first letter.

        In every round each word takes the merge whose turn it is, the first of equal ones, or leaves it out for good.
        """
        n_letters, first_letter = len(symbols), np.arange(len(symbols))
        turns = self.turns(symbols, word, first_letter)
        for number in range(n_letters):
            words = np.flatnonzero(np.diff(word, prepend=-1))
            earliest = np.minimum.reduceat(turns * n_letters + np.arange(len(symbols)), words)
            turn, at = np.divmod(earliest[earliest < NEVER * n_letters], n_letters)
            if not len(at):
                break
            merges = shares(key + (number * n_letters + word[at]).astype(np.uint64)) >= self.probability
            turns[at] = NEVER
            turn, at = turn[merges], at[merges]
            symbols[at] = self.merges.pieces[turn]
            stays = np.ones(len(symbols), dtype=bool)
            stays[at + 1] = False
            symbols, word, first_letter, turns = symbols[stays], word[stays], first_letter[stays], turns[stays]
            at = np.cumsum(stays)[at] - 1
            changed = np.concatenate([at, at[at > 0] - 1])
            turns[changed] = self.turns(symbols, word, changed)
        return symbols, first_letter

    def turns(self, symbols: Numbers, word: Numbers, places: Numbers) -> Numbers:
        """When the symbols at some places are merged with the next ones of their words."""
        following = np.minimum(places + 1, len(symbols) - 1)
        alike = (word[places] == word[following]) & (following > places)
        return np.where(alike, self.merges.turns(symbols[places], symbols[following]), NEVER)


class Merges:
    """Which two symbols make a piece, and in which order pieces are made.

    Args:
        pieces: the special ones first.
        scores: of each piece; the largest is made first.
    """

    def __init__(self, pieces: Sequence[str], scores: NDArray[np.float64]) -> None:
        self.pieces = np.argsort(-scores, kind="stable")
        turn_of, known = np.argsort(self.pieces), numbered(pieces)
        found = sorted(
            (known[piece[:cut]] * len(pieces) + known[piece[cut:]], turn_of[number])
            for piece, number in known.items()
            for cut in range(1, len(piece))
            if piece[:cut] in known and piece[cut:] in known
        )
        self.n_pieces = len(pieces)
        self.pairs, self.turn = np.array([(-1, NEVER), *found], dtype=np.int64).T

    def turns(self, left: Numbers, right: Numbers) -> Numbers:
        """Whose turn it is first when symbols stand side by side; `NEVER` where they make no piece."""
        pair = left * self.n_pieces + right
        place = np.searchsorted(self.pairs, pair, side="right") - 1
        return np.where(self.pairs[place] == pair, self.turn[place], NEVER)


def spellings(pieces: Sequence[str]) -> Side:
    """The letters of every piece, as pieces; one with a letter that is none, or a special one, is its own."""
    known = numbered(pieces)
    spelt = [
        [known[letter] for letter in piece] if piece in known and known.keys() >= set(piece) else [number]
        for number, piece in enumerate(pieces)
    ]
    ids = np.array([letter for letters in spelt for letter in letters], dtype=np.uint32)
    return Side(ids, np.cumsum([0, *map(len, spelt)]))


def numbered(pieces: Sequence[str]) -> dict[str, int]:
    """The number of every piece that is of letters; the special ones come before them."""
    return {piece: number for number, piece in enumerate(pieces) if number > EOS}
