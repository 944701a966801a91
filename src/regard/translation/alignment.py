"""Alignment: the source word that each word of a translation attended to most.

The attention weights come from one forced decoding: the model reads the source together with the finished translation.
Row t has the weights of the decoder step that predicts target piece t.

    piece weights = mean over the heads of one layer                  target pieces × source pieces, EOS last in both
    word weights  = mean over a target word's pieces of the sum over a source word's pieces           (EOS left out)
    alignment     = each target word with the source word of its largest weight; in a tie, with the first of them

Words are divided at white space, so that "Tom." is one word. Its full stop looks elsewhere than its letters do, mostly
at the end of the source. So pieces of punctuation are left out of a word that has other pieces.

Source: Garg et al. 2019, section 4.1 (the mean over the heads of a Transformer's last layer but one).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import category

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.text.cleaning import SPACE


def cross_weights(cross: tuple[Pattern, ...], layer: int | None = None) -> Float[Tensor, "batch target source"]:
    """Return the cross-attention weights of one layer, averaged over its heads.

    Args:
        cross: the cross-attention pattern of each decoder layer.
        layer: the layer, counted from 0; None = the last layer but one, or the only one.

    Raises:
        ValueError: the layer does not exist.
    """
    if layer is not None and not -len(cross) <= layer < len(cross):
        raise ValueError(f"layer={layer} does not exist; the model has {len(cross)} layers, counted from 0.")
    chosen = max(len(cross) - 2, 0) if layer is None else layer
    return cross[chosen].dense().mean(dim=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment:
    """The attention weights of the words of a translation over the words of its source.

    Attributes:
        source_words, target_words: the words of each text, divided at white space.
        source_pieces, target_pieces: the pieces of each text, EOS last.
        piece_weights: the attention weight of each target piece on each source piece; a row sums to 1.
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
        """The weight of each target word on each source word.

        A row sums to 1 minus the weight on the source's EOS and on its punctuation, where that is a part of words.
        """
        rows = pieces_that_count(self.target_pieces, self.target_word_of)
        columns = pieces_that_count(self.source_pieces, self.source_word_of)
        return merge_pieces(
            self.piece_weights[rows][:, columns],
            [self.target_word_of[row] for row in rows],
            [self.source_word_of[column] for column in columns],
            len(self.target_words),
            len(self.source_words),
        )

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """For each target word that has pieces: (index of the source word with its largest weight, its own index)."""
        if not self.source_word_of:
            return ()
        largest = self.weights.argmax(dim=1).tolist()
        return tuple((largest[target], target) for target in dict.fromkeys(self.target_word_of))

    @property
    def pharaoh(self) -> str:
        """The pairs in the format of Pharaoh, Moses and fast_align, such as "0-0 1-2"; the source index comes first."""
        return " ".join(f"{source}-{target}" for source, target in sorted(self.pairs))

    def __repr__(self) -> str:
        words = f"{len(self.source_words)} source words, {len(self.target_words)} target words"
        return f"Alignment({self.pharaoh!r}, {words})"


def pieces_that_count(pieces: Sequence[str], word_of: Sequence[int]) -> list[int]:
    """Return the positions of the pieces that stand for their words: all but punctuation beside other pieces.

    Args:
        word_of: for each piece except EOS, the index of the word that it belongs to.

    >>> pieces_that_count(["▁Tom", "'", "s", ".", "▁", "…", "</s>"], [0, 0, 0, 0, 1, 1])
    [0, 2, 4, 5]
    """
    letters = [piece.replace(SPACE, "") for piece in pieces]
    spelt = {word for word, own in zip(word_of, letters, strict=False) if own and not is_punctuation(own)}
    return [place for place, word in enumerate(word_of) if word not in spelt or not is_punctuation(letters[place])]


def is_punctuation(text: str) -> bool:
    """Return whether a text has characters, and all of them are punctuation."""
    return bool(text) and all(category(letter).startswith("P") for letter in text)


def merge_pieces(
    weights: Float[Tensor, "rows columns"],
    rows_to: Sequence[int],
    columns_to: Sequence[int],
    n_rows: int,
    n_columns: int,
) -> Float[Tensor, "n_rows n_columns"]:
    """Convert attention weights between pieces to weights between words.

    The weight of a target word on a source word is the mean over the target word's rows of the sum over the source
    word's columns; it is 0 for a target word without rows.

    Args:
        weights: one row for each target piece, one column for each source piece.
        rows_to: the index of the target word that each row belongs to. Rows beyond this list, such as the row of EOS,
            are left out.
        columns_to: the index of the source word that each column belongs to. Columns beyond this list are left out.
        n_rows: the number of target words.
        n_columns: the number of source words.

    >>> merge_pieces(torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]), [0, 0], [0, 0], 1, 1)
    tensor([[0.7500]])
    """
    rows, columns = torch.tensor(rows_to, dtype=torch.long), torch.tensor(columns_to, dtype=torch.long)
    weights = weights[: len(rows), : len(columns)]
    by_column = weights.new_zeros(len(rows), n_columns).index_add(1, columns.to(weights.device), weights)
    summed = weights.new_zeros(n_rows, n_columns).index_add(0, rows.to(weights.device), by_column)
    rows_per_word = torch.bincount(rows, minlength=n_rows).clamp(min=1)
    return summed / rows_per_word.to(weights)[:, None]
