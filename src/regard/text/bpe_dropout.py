"""BPE-dropout: texts are divided into pieces (subwords) at random, differently in every epoch.

BPE merges letters into pieces, the most frequent pairs first; BPE-dropout skips each merge with some probability. So a
model reads a word sometimes whole and sometimes in parts, learns what the parts mean, and overfits a small corpus less.

The algorithm is that of SentencePiece, whose random numbers differ from process to process. Here the random numbers are
derived from a key, so that a resumed training run divides texts exactly as a run without interruption.

Source: Provilkov, Emelianenko & Voita 2020, "BPE-Dropout", section 3.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.text.cleaning import SPACE
from regard.text.corpus import Ids, Lengths, Side
from regard.text.keyed_random import Integers, philox, uniform_numbers
from regard.text.piece_table import NORMAL, pieces_of
from regard.text.vocabulary import EOS, Vocabulary

NOT_DIVIDED = "\0\0"
"""Stands for the text of pieces that must not be divided, such as special pieces and tags.

No real text has NUL. A single NUL is no piece, so this text of two NULs cannot be divided into letters that are pieces.
"""

NEVER = 2**31
"""The rank of a merge that is never performed: the result is no piece, or BPE-dropout has skipped the merge."""


class BPEDropout:
    """BPE-dropout for the texts of one language (Provilkov et al. 2020).

    Args:
        vocabulary: the vocabulary of the language, made by BPE.
        probability: the probability that a merge of two symbols (letters or pieces) into a piece is skipped.
        max_tokens: the largest number of pieces in a text; a text stays as it is if dropout would give it more.

    >>> vocabulary = Vocabulary.train(["the cat sat", "the mat"] * 9, n_tokens=20)
    >>> ids = np.array(vocabulary.encode("the cat"), np.uint16)
    >>> ids, lengths = BPEDropout(vocabulary, probability=1.0, max_tokens=9)(ids, np.array([len(ids)]), key=(5,))
    >>> vocabulary.pieces(ids.tolist())
    ['▁', 't', 'h', 'e', '▁', 'c', 'a', 't']
    """

    def __init__(self, vocabulary: Vocabulary, probability: float, max_tokens: int) -> None:
        self.probability, self.max_tokens = probability, max_tokens
        pieces = [piece.text if piece.kind == NORMAL else NOT_DIVIDED for piece in pieces_of(vocabulary.model)]
        self.letters, self.merges = letters_of_pieces(pieces), Merges(pieces, vocabulary.scores())
        self.begins_word = np.array(pieces) == SPACE

    def __call__(self, ids: Ids, lengths: Lengths, key: tuple[int | str, ...]) -> tuple[Ids, Lengths]:
        """Divide texts into pieces again, skipping merges at random; return the new `ids` and `lengths`.

        Args:
            ids: the ids of all texts, concatenated; each text begins with ▁, as SentencePiece writes it.
            lengths: the number of ids in each text.
            key: the seed of the random numbers; equal keys skip the same merges.
        """
        text_of_id = np.repeat(np.arange(len(lengths)), lengths)
        letters, n_letters = self.letters.rows(ids.astype(np.int64))  # of all pieces, concatenated
        text_of_letter = np.repeat(text_of_id, n_letters)
        word_of_letter = np.cumsum(self.begins_word[letters]) - 1  # every word begins with the letter ▁
        pieces, first_letter = self.merge_letters(letters.astype(np.int64), word_of_letter, philox(*key))
        text_of_piece = text_of_letter[first_letter]
        fits = np.bincount(text_of_piece, minlength=len(lengths)) <= self.max_tokens
        # the new pieces of each text that fits, and the old ids of all others, are sorted by the index of their text
        is_new, is_kept = fits[text_of_piece], ~fits[text_of_id]
        text_of_new_id = np.concatenate([text_of_piece[is_new], text_of_id[is_kept]])
        new_ids = np.concatenate([pieces[is_new].astype(ids.dtype), ids[is_kept]])
        in_order = np.argsort(text_of_new_id, kind="stable")
        return new_ids[in_order], np.bincount(text_of_new_id, minlength=len(lengths))

    def merge_letters(
        self, symbols: Integers, word: Integers, generator: np.random.Philox
    ) -> tuple[Integers, Integers]:
        """Merge the letters of words into pieces, skipping merges at random.

        In every round, one merge in each word is performed or skipped for good: the merge of lowest rank (see
        `Merges`), and the leftmost one if several have this rank.

        Args:
            symbols: the ids of the letters of all words, concatenated.
            word: for each letter, the index of its word.

        Returns:
            The ids of the pieces, and for each piece the index of its first letter in `symbols`.
        """
        n_letters, first_letter = len(symbols), np.arange(len(symbols))
        ranks = self.ranks(symbols, word, first_letter)
        for _ in range(n_letters):
            word_starts = np.flatnonzero(np.diff(word, prepend=-1))
            # in each word, the smallest rank * n_letters + index has the lowest rank and, of these, the leftmost index
            lowest = np.minimum.reduceat(ranks * n_letters + np.arange(len(symbols)), word_starts)
            rank, left = np.divmod(lowest[lowest < NEVER * n_letters], n_letters)
            if not len(left):
                break
            performed = uniform_numbers(generator, len(left)) >= self.probability
            ranks[left] = NEVER
            rank, left = rank[performed], left[performed]
            symbols[left] = self.merges.piece_of_rank[rank]
            stays = np.ones(len(symbols), dtype=bool)
            stays[left + 1] = False
            symbols, word, first_letter, ranks = symbols[stays], word[stays], first_letter[stays], ranks[stays]
            left = np.cumsum(stays)[left] - 1  # the indices of the merged symbols in the shorter arrays
            changed = np.concatenate([left, left[left > 0] - 1])
            ranks[changed] = self.ranks(symbols, word, changed)
        return symbols, first_letter

    def ranks(self, symbols: Integers, word: Integers, positions: Integers) -> Integers:
        """For each i in `positions`, return the rank of merging symbols[i] with the next symbol; `NEVER` = no merge.

        Args:
            symbols: the ids of the symbols (letters or pieces) of all words, concatenated.
            word: for each symbol, the index of its word.
        """
        following = np.minimum(positions + 1, len(symbols) - 1)
        same_word = (word[positions] == word[following]) & (following > positions)
        return np.where(same_word, self.merges.ranks(symbols[positions], symbols[following]), NEVER)


class Merges:
    """The merges of BPE: which pairs of symbols can be joined, and in which order (rank; lowest first).

    Two symbols can be joined if they, and the result, are pieces of the vocabulary.

    Args:
        pieces: all pieces of the vocabulary, the special ones first.
        scores: the score of each piece; the higher the score of the joined symbol, the lower the rank of the merge.
    """

    def __init__(self, pieces: Sequence[str], scores: NDArray[np.float64]) -> None:
        self.piece_of_rank = np.argsort(-scores, kind="stable")
        self.n_pieces = len(pieces)
        rank_of_piece = np.argsort(self.piece_of_rank)  # the inverse of the permutation
        id_of = ids_of(pieces)
        # A pair is stored as one number. -1 (no pair) is the first: so the search in `ranks` always finds a number.
        merges = [(-1, NEVER)]
        for piece, piece_id in id_of.items():
            for cut in range(1, len(piece)):
                left, right = id_of.get(piece[:cut]), id_of.get(piece[cut:])
                if left is not None and right is not None:
                    merges.append((left * self.n_pieces + right, rank_of_piece[piece_id]))
        self.pairs, self.rank_of_pair = np.array(sorted(merges), dtype=np.int64).T

    def ranks(self, left: Integers, right: Integers) -> Integers:
        """Return, for each i, the rank of merging left[i] with right[i]; `NEVER` = they cannot be merged."""
        pair = left * self.n_pieces + right
        index = np.searchsorted(self.pairs, pair, side="right") - 1
        return np.where(self.pairs[index] == pair, self.rank_of_pair[index], NEVER)


def letters_of_pieces(pieces: Sequence[str]) -> Side:
    """Return the ids of the letters of each piece of a vocabulary, as a `Side` whose texts are the pieces, by id.

    A special piece, or a piece with a letter that has no id, is not divided; in place of letters, it has its own id.
    """
    id_of = ids_of(pieces)
    letters_of_piece = [
        [id_of[letter] for letter in piece] if piece in id_of and id_of.keys() >= set(piece) else [piece_id]
        for piece_id, piece in enumerate(pieces)
    ]
    ids = np.array([letter for letters in letters_of_piece for letter in letters], dtype=np.uint32)
    return Side(ids, np.cumsum([0, *map(len, letters_of_piece)]))


def ids_of(pieces: Sequence[str]) -> dict[str, int]:
    """Return the id of each piece, without the special pieces PAD, UNK, BOS and EOS."""
    return {piece: piece_id for piece_id, piece in enumerate(pieces) if piece_id > EOS}
