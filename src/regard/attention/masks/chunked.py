"""Masks that restrict attention to chunks of the sequence."""

from dataclasses import dataclass

from regard.attention.masks.checks import check_integers
from regard.attention.masks.range_mask import Number, RangeMask


@dataclass(frozen=True, slots=True, repr=False)
class Chunked(RangeMask):
    """The sequence is cut into chunks of `size` tokens, and a query attends to the keys of its own chunk.

    Llama 4's chunked attention, which is causal too, is `Causal() & Chunked(8192)`.

    Args:
        size: the number of tokens in a chunk; the last chunk may be shorter.
        offset: the key position of query 0; None = keys - queries (the queries are the last tokens).

    Raises:
        ValueError: size is below 1.
        TypeError: size or offset is not an integer.

    Source: blockwise attention, Qiu et al. 2020, section 3, for the case that each block attends to itself.
    """

    size: int
    offset: int | None = None

    def __post_init__(self) -> None:
        check_integers("Chunked", size=self.size, offset=self.offset)
        if self.size < 1:
            raise ValueError(f"Chunked(size={self.size}): size is the length of a chunk, so it must be at least 1.")

    def limits(self, position: Number, length: Number, keys: int) -> tuple[Number, Number]:
        start = position // self.size * self.size
        return start, start + self.size
