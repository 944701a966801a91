"""Word alignment: the source words that each word of a translation attended to most.

The attention weights come from one forced decoding: the model reads the source together with the finished translation.

    piece weights = the weights chosen by an `AlignmentRule`: target pieces × source pieces (EOS belongs to no word)
    word weights  = piece weights, summed over each source word's pieces, averaged over each target word's pieces
    alignment     = for each piece of a target word, the source word with the largest weight (the first in a tie)

A target word may have several source words: if "forty-two thousand and seven" becomes 사만 이천칠 (40,000 2,007),
이천칠 is aligned with "forty-two" and "seven".

Texts are divided into words at white space, so that "Tom." is one word. The full stop mostly attends to the end of the
source, the letters do not. So a word's pieces of punctuation and white space are left out if the word has other pieces.

If no attention weights align words well, they are replaced: the weight of a target piece on a source word is then how
much probability the piece loses if the word is left out (by="erasure").

Source: Garg et al. 2019, section 4.1 (the mean over the heads of a Transformer's last layer but one, the default rule).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from unicodedata import category

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.text.cleaning import SPACE


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment:
    """The word alignment of a translation: the weight of each target word on each source word.

    Attributes:
        source_words, target_words: the words of each text, divided at white space.
        source_pieces, target_pieces: the subword pieces of each text, EOS last.
        piece_weights: the weight of each target piece on each source piece; a row of attention weights sums to 1.
        source_word_of, target_word_of: for each piece except EOS, the index of the word that it belongs to.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    piece_weights: Float[Tensor, "target_pieces source_pieces"]
    source_word_of: tuple[int, ...]
    target_word_of: tuple[int, ...]

    @cached_property
    def weights(self) -> Float[Tensor, "target_words source_words"]:
        """The attention weight of each target word on each source word.

        A row sums to 1 minus the weights on the source's EOS and on punctuation that is attached to a source word.
        """
        target_pieces, weights = self._weights_on_words
        target_words = torch.tensor([self.target_word_of[piece] for piece in target_pieces], dtype=torch.long)
        n_pieces = torch.bincount(target_words, minlength=len(self.target_words)).clamp(min=1)
        return sum_rows(weights, target_words, len(self.target_words)) / n_pieces.to(weights)[:, None]

    @cached_property
    def source_word_of_target_piece(self) -> dict[int, int]:
        """For each target piece, the index of the source word on which it has the largest weight.

        Two kinds of pieces have no entry: pieces whose weights are all 0, and punctuation or white space in a word with
        other characters.
        """
        target_pieces, weights = self._weights_on_words
        if not self.source_word_of:
            return {}
        largest = weights.max(dim=1)
        entries = zip(target_pieces, largest.values.tolist(), largest.indices.tolist(), strict=True)
        return {piece: source_word for piece, weight, source_word in entries if weight}

    @cached_property
    def _weights_on_words(self) -> tuple[list[int], Float[Tensor, "rows source_words"]]:
        """The indices of the target pieces that represent words, and the weights of these pieces on the source words.

        The weight on a source word is the sum of the weights on the pieces that represent the word.
        """
        target_pieces = representative_pieces(self.target_pieces, self.target_word_of)
        source_pieces = representative_pieces(self.source_pieces, self.source_word_of)
        source_words = torch.tensor([self.source_word_of[piece] for piece in source_pieces], dtype=torch.long)
        weights_on_pieces = self.piece_weights[target_pieces][:, source_pieces]
        weights_on_words = sum_rows(weights_on_pieces.T, source_words, len(self.source_words)).T  # sums the columns
        return target_pieces, weights_on_words

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The aligned words as pairs (index of a source word, index of a target word), in the order of the target."""
        aligned = self.source_word_of_target_piece.items()
        return tuple(dict.fromkeys((source, self.target_word_of[piece]) for piece, source in aligned))

    @property
    def pharaoh(self) -> str:
        """The aligned word pairs in the format of Pharaoh, Moses and fast_align, e.g. "0-0 1-2", source index first."""
        return " ".join(f"{source}-{target}" for source, target in sorted(self.pairs))

    def figure(self, path: str | Path, title: str = "", rule: str = "") -> Path:
        """Write a picture of the alignment: a row for each target word, a column for each source word; return `path`.

        The area of the circle in a cell is proportional to the attention weight. `path` ends in .png, .svg or .pdf.
        `rule`: what the weights are, such as "cross-attention, layer 2, head 5", for the caption; empty = not told.

        Raises:
            InputError: the name has another ending, or the file cannot be written.
        """
        from regard.views.alignment import write_alignment

        return write_alignment(Path(path), self.source_words, self.target_words, self.weights, title, rule)

    def _repr_png_(self) -> bytes:
        """Return the picture that `figure` writes, for a notebook."""
        from regard.views.alignment import alignment_figure
        from regard.views.picture.canvas import rendered

        return rendered(alignment_figure(self.source_words, self.target_words, self.weights))

    def __repr__(self) -> str:
        words = f"{len(self.source_words)} source words, {len(self.target_words)} target words"
        return f"Alignment({self.pharaoh!r}, {words})"


def representative_pieces(pieces: Sequence[str], word_of: Sequence[int]) -> list[int]:
    """Return the indices of the subword pieces that represent their words in an alignment.

    A word is represented by its pieces with letters, digits or symbols; a word without such pieces by its punctuation;
    a word of white space alone by all its pieces.

    Args:
        word_of: for each piece except EOS, the index of its word.

    >>> representative_pieces(["▁Tom", "'", "s", ".", "▁", "…", "</s>"], [0, 0, 0, 0, 1, 1])
    [0, 2, 5]
    """
    ranks = [representation_rank(piece.replace(SPACE, "")) for piece in pieces[: len(word_of)]]
    highest_rank = dict[int, int]()
    for word, rank in zip(word_of, ranks, strict=True):
        highest_rank[word] = max(rank, highest_rank.get(word, 0))
    words_and_ranks = zip(word_of, ranks, strict=True)
    return [index for index, (word, rank) in enumerate(words_and_ranks) if rank == highest_rank[word]]


def representation_rank(text: str) -> int:
    """Return 0 for no text, 1 for punctuation alone, 2 otherwise. Pieces of the highest rank represent the word."""
    if not text:
        return 0
    return 1 if all(category(letter).startswith("P") for letter in text) else 2


def sum_rows(
    weights: Float[Tensor, "rows columns"], group_of_row: Int[Tensor, " rows"], n_groups: int
) -> Float[Tensor, "groups columns"]:
    """Return the sum of the rows of each group; a group without rows has the sum 0."""
    return weights.new_zeros(n_groups, weights.shape[1]).index_add(0, group_of_row.to(weights.device), weights)
