"""Causal masks, and causal masks with a prefix that all queries see."""

from dataclasses import dataclass

from jaxtyping import Integer
from torch import Tensor

from regard.attention.grid.grid import Grid
from regard.attention.masks.checks import check_whole, check_whole_tensor
from regard.attention.masks.range_mask import Number, RangeMask, first_position


@dataclass(frozen=True, slots=True, repr=False)
class Causal(RangeMask):
    """A query attends to its own position and to those before it: key j when j <= i + offset.

    Args:
        offset: position of the first query among the keys. None = keys - queries (the queries are the last tokens);
            0 = queries and keys start together.
        own: whether a query sees its own position; False: only the keys before it.

    Raises:
        TypeError: an offset that is no whole number.

    Source: Vaswani et al. 2017, section 3.2.3.
    """

    offset: int | None = None
    own: bool = True

    def __post_init__(self) -> None:
        if self.offset is not None and not isinstance(self.offset, int):
            check_whole("Causal", offset=self.offset)

    def limits(self, position: Number, length: Number, keys: int) -> tuple[None, Number]:
        """Return the range that ends at the query's own position."""
        return None, position + 1 if self.own else position

    def is_lower_triangle(self, grid: Grid) -> bool:
        """Return whether query i sees the keys 0 … i, the one causal mask that PyTorch's kernels have built in."""
        return self.own and first_position(self.offset, grid) == 0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Prefix(RangeMask):
    """Every query attends to the first `length` keys, and causally to the keys after them.

    A prompt is read in both directions and its continuation in one: key j when j < length or j <= i + offset.

    Args:
        length: how many keys are the prefix, or how many are in each item of the batch.
        offset: position of the first query among the keys; None = keys - queries, as for `Causal`.

    Raises:
        TypeError: an offset that is no whole number, or a length that is neither one nor a tensor of them.
        ValueError: a negative length; at the call, lengths that do not fit the batch.

    Source: prefix language model, Raffel et al. 2020, section 3.2.1.
    """

    length: int | Integer[Tensor, " batch"]
    offset: int | None = None

    def __post_init__(self) -> None:
        check_whole("Prefix", offset=self.offset)
        if not isinstance(self.length, int):
            check_whole_tensor("Prefix", "length", self.length)
        elif self.length < 0:
            raise ValueError(f"Prefix(length={self.length}) counts keys from the first, so it must be at least 0.")

    @property
    def item_lengths(self) -> int | Integer[Tensor, " batch"]:  # type: ignore[override]
        """The length of the prefix: one for all batch items, or one for each."""
        return self.length

    def limits(self, position: Number, length: Number, keys: int) -> tuple[None, Number]:
        """Return the range that ends with the prefix, or at the query's own position if that is later."""
        stop = position + 1
        return None, stop.clamp(min=length) if isinstance(stop, Tensor) else max(stop, length)
