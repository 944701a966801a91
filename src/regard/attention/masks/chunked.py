"""Attention inside chunks of the sequence."""

from dataclasses import dataclass

from regard.attention.masks.checks import check_whole
from regard.attention.masks.range_mask import Number, RangeMask


@dataclass(frozen=True, slots=True, repr=False)
class Chunked(RangeMask):
    """The sequence is cut into chunks of `size` tokens, and a query attends to the keys of its own chunk.

    Llama 4's chunked attention, which is causal too, is `Causal() & Chunked(8192)`.

    Args:
        size: tokens in a chunk; the last one may be shorter.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        ValueError: a size below 1.
        TypeError: a number that is not whole.

    Source: blockwise attention, Qiu et al. 2020, section 3, each block with itself.
    """

    size: int
    offset: int | None = None

    def __post_init__(self) -> None:
        check_whole("Chunked", size=self.size, offset=self.offset)
        if self.size < 1:
            raise ValueError(f"Chunked(size={self.size}) cuts the tokens into chunks, so a chunk takes at least 1.")

    def limits(self, position: Number, length: Number, keys: int) -> tuple[Number, Number]:
        """Return the chunk that the query's position lies in."""
        start = position // self.size * self.size
        return start, start + self.size
