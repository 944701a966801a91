"""Which words of a source each word of its translation looked at.

A translation's weights are read in one forced pass over the finished text, so that they are those of the text that won,
whatever a beam did on its way. Row t is where the model looked when it wrote target piece t.

    piece weights = mean over the heads of one layer                  target pieces × source pieces, EOS last in both
    word weights  = mean over a target word's pieces, of the sum over a source word's pieces          (EOS left out)
    alignment     = each target word with the source word that has its largest weight, the first of equals

Source: Garg et al. 2019, section 4.1 (the mean over the heads of a Transformer's layer before the last).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern


def cross_weights(cross: tuple[Pattern, ...], layer: int | None = None) -> Float[Tensor, "batch target source"]:
    """How much each target token looked at each source token: the mean over the heads of one layer.

    Args:
        layer: counted from 0; None = the layer before the last, or the only one.

    Raises:
        ValueError: there is no such layer.
    """
    if layer is not None and not -len(cross) <= layer < len(cross):
        raise ValueError(f"layer={layer} is not there to be read; the model has {len(cross)}, counted from 0.")
    chosen = max(len(cross) - 2, 0) if layer is None else layer
    return cross[chosen].dense().mean(dim=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment:
    """Which source words each target word looked at, and how much.

    Attributes:
        source_words, target_words: the words of the two texts, as white space divides them.
        source_pieces, target_pieces: the pieces that the model read and wrote, EOS last.
        piece_weights: how much each target piece looked at each source piece; a row sums to 1.
        source_word_of, target_word_of: the word that each piece belongs to, EOS left out.
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
        """How much each target word looked at each source word; a row lacks of 1 what its pieces looked at EOS."""
        return merged(
            self.piece_weights, self.target_word_of, self.source_word_of, len(self.target_words), len(self.source_words)
        )

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(source word, target word) for each target word that has pieces, by its largest weight; counted from 0."""
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


def merged(
    weights: Float[Tensor, "rows columns"],
    rows_to: Sequence[int],
    columns_to: Sequence[int],
    n_rows: int,
    n_columns: int,
) -> Float[Tensor, "n_rows n_columns"]:
    """Weights of words from those of pieces: the sum over a word's columns, the mean over a word's rows.

    Args:
        rows_to, columns_to: the word of each of the first rows and columns; what comes after them belongs to none.

    >>> merged(torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]), [0, 0], [0, 0], 1, 1)
    tensor([[0.7500]])
    """
    rows, columns = torch.tensor(rows_to, dtype=torch.long), torch.tensor(columns_to, dtype=torch.long)
    part = weights[: len(rows), : len(columns)]
    by_column = part.new_zeros(len(rows), n_columns).index_add(1, columns.to(part.device), part)
    summed = part.new_zeros(n_rows, n_columns).index_add(0, rows.to(part.device), by_column)
    counts = torch.bincount(rows, minlength=n_rows).clamp(min=1)
    return summed / counts.to(part)[:, None]
