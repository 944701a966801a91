"""Alignment: the source word that each word of a translation attended to most.

The attention weights come from one forced decoding of the finished text, so they are those of the final translation,
whatever a beam search tried on its way. Row t holds the weights of the step that wrote target piece t.

    piece weights = mean over the heads of one layer                  target pieces × source pieces, EOS last in both
    word weights  = mean over a target word's pieces of the sum over a source word's pieces           (EOS left out)
    alignment     = each target word with the source word of its largest weight, the first of equals

Source: Garg et al. 2019, section 4.1 (the mean over the heads of a Transformer's last layer but one).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern


def cross_weights(cross: tuple[Pattern, ...], layer: int | None = None) -> Float[Tensor, "batch target source"]:
    """Return the attention weights of target tokens over source tokens: the mean over the heads of one layer.

    Args:
        layer: counted from 0; None = the last layer but one, or the only one.

    Raises:
        ValueError: the layer does not exist.
    """
    if layer is not None and not -len(cross) <= layer < len(cross):
        raise ValueError(f"layer={layer} does not exist; the model has {len(cross)} layers, counted from 0.")
    chosen = max(len(cross) - 2, 0) if layer is None else layer
    return cross[chosen].dense().mean(dim=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment:
    """The attention weights between the words of a source and of its translation.

    Attributes:
        source_words, target_words: the words of the two texts, divided at white space.
        source_pieces, target_pieces: the pieces that the model read and wrote, EOS last.
        piece_weights: the attention weight of each target piece on each source piece; a row sums to 1.
        source_word_of, target_word_of: the index of the word that each piece belongs to, EOS left out.
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
        """The weight of each target word on each source word; a row sums to 1 minus the weight on the source's EOS."""
        return merge_pieces(
            self.piece_weights, self.target_word_of, self.source_word_of, len(self.target_words), len(self.source_words)
        )

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs (source word, target word) by largest weight, counted from 0, for each target word with pieces."""
        if not self.source_word_of:
            return ()
        largest = self.weights.argmax(dim=1).tolist()
        return tuple((largest[target], target) for target in dict.fromkeys(self.target_word_of))

    @property
    def pharaoh(self) -> str:
        """The pairs as Pharaoh, Moses and fast_align write them: "0-0 1-2", source first."""
        return " ".join(f"{source}-{target}" for source, target in sorted(self.pairs))

    def __repr__(self) -> str:
        words = f"{len(self.source_words)} source words, {len(self.target_words)} target words"
        return f"Alignment({self.pharaoh!r}, {words})"


def merge_pieces(
    weights: Float[Tensor, "rows columns"],
    rows_to: Sequence[int],
    columns_to: Sequence[int],
    n_rows: int,
    n_columns: int,
) -> Float[Tensor, "n_rows n_columns"]:
    """Return the weights between words from those between pieces: sum over a word's columns, mean over its rows.

    Args:
        rows_to, columns_to: the index of the word that each row and column belongs to. Rows and columns beyond the
            ends of these lists, such as those of EOS, are left out.

    >>> merge_pieces(torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]), [0, 0], [0, 0], 1, 1)
    tensor([[0.7500]])
    """
    rows, columns = torch.tensor(rows_to, dtype=torch.long), torch.tensor(columns_to, dtype=torch.long)
    part = weights[: len(rows), : len(columns)]
    by_column = part.new_zeros(len(rows), n_columns).index_add(1, columns.to(part.device), part)
    summed = part.new_zeros(n_rows, n_columns).index_add(0, rows.to(part.device), by_column)
    counts = torch.bincount(rows, minlength=n_rows).clamp(min=1)
    return summed / counts.to(part)[:, None]
