"""Padding: the keys that make all items of a batch equally long and are no tokens."""

from dataclasses import dataclass
from typing import Literal, get_args

from jaxtyping import Integer
from torch import Tensor

from regard.attention.masks.checks import check_whole_tensor
from regard.attention.masks.range_mask import Number, RangeMask

Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Padding(RangeMask):
    """Of each batch item, `lengths[item]` keys are tokens and the rest is padding that nobody attends to.

    Args:
        lengths: how many tokens each item of the batch has.
        side: where the padding is. "right": the first keys are tokens; "left": the last ones are.
    """

    lengths: Integer[Tensor, " batch"]
    side: Side = "right"
    per_query = False

    def __post_init__(self) -> None:
        if self.side not in get_args(Side):
            raise ValueError(
                f"Padding(side={self.side!r}) says on which side of the tokens the padding is; "
                'it must be "right" or "left".'
            )
        check_whole_tensor("Padding", "lengths", self.lengths)

    @property
    def item_lengths(self) -> Integer[Tensor, " batch"]:  # type: ignore[override]
        """How many tokens each item has."""
        return self.lengths

    def limits(self, position: Number, length: Number, keys: int) -> tuple[Number | None, Number | None]:
        """Return the tokens of the item: the first `length` keys, or the last."""
        return (None, length) if self.side == "right" else (keys - length, None)
