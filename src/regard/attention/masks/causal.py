"""Causal masks, and causal masks with a prefix to which all queries may attend."""

from dataclasses import dataclass

from jaxtyping import Integer
from torch import Tensor

from regard.attention.grid.grid import Grid
from regard.attention.masks.checks import check_integer_tensor, check_integers
from regard.attention.masks.lengths import check_lengths_not_negative
from regard.attention.masks.range_mask import Number, RangeMask
from regard.attention.stages import EqualFields


@dataclass(frozen=True, slots=True, repr=False)
class Causal(RangeMask):
    """A query attends to the key at its own position and to the keys before it: query i to key j if j <= i + offset.

    Args:
        offset: the key position of query 0. None = keys - queries (the queries are the last tokens); 0 = query 0 and
            key 0 are the same token.
        own: True = a query may attend to the key at its own position; False = only to the keys before it.

    Raises:
        TypeError: offset is not an integer.

    Source: Vaswani et al. 2017, section 3.2.3.
    """

    offset: int | None = None
    own: bool = True

    def __post_init__(self) -> None:
        check_integers("Causal", offset=self.offset)

    def limits(self, position: Number, length: Number, keys: int) -> tuple[None, Number]:
        stop = position + 1 if self.own else position
        return None, stop

    def is_lower_triangle(self, grid: Grid) -> bool:
        """Return whether query i may attend to exactly the keys 0 … i, as with `is_causal=True` in PyTorch."""
        return self.own and grid.first_position(self.offset) == 0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Prefix(EqualFields, RangeMask):
    """Every query attends to the first `length` keys, and causally to the keys after them.

    Attention is bidirectional within the prefix and causal after it: query i attends to key j if j < length or j <= i +
    offset.

    Args:
        length: the number of keys in the prefix: an int for all batch items, or a tensor with one number for each.
        offset: the key position of query 0; None = keys - queries (the queries are the last tokens).

    Raises:
        TypeError: offset is not an integer, or length is neither an integer nor a tensor of integers.
        ValueError: a length is negative; or, raised by `attend`, the number of lengths is not the batch size.

    Source: prefix language model, Raffel et al. 2020, section 3.2.1.
    """

    length: int | Integer[Tensor, " batch"]
    offset: int | None = None

    def __post_init__(self) -> None:
        check_integers("Prefix", offset=self.offset)
        if isinstance(self.length, Tensor):
            check_integer_tensor("Prefix", "length", self.length)
            check_lengths_not_negative("Prefix", "length", self.length)
            return
        check_integers("Prefix", length=self.length)
        object.__setattr__(self, "length", int(self.length))  # a numpy integer, for example, becomes an int
        if self.length < 0:
            raise ValueError(f"Prefix(length={self.length}) counts keys from the first, so it must be at least 0.")

    @property
    def item_lengths(self) -> int | Integer[Tensor, " batch"]:  # type: ignore[override]
        return self.length

    def limits(self, position: Number, length: Number, keys: int) -> tuple[None, Number]:
        stop = position + 1
        return None, stop.clamp(min=length) if isinstance(stop, Tensor) else max(stop, length)
