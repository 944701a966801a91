"""The padding mask: no query attends to padding, the keys that fill shorter batch items up to a common length."""

from dataclasses import dataclass
from typing import Literal, get_args

from jaxtyping import Integer
from torch import Tensor

from regard.attention.masks.checks import check_integer_tensor
from regard.attention.masks.lengths import check_lengths_not_negative
from regard.attention.masks.range_mask import Number, RangeMask
from regard.attention.stages import EqualFields

Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Padding(EqualFields, RangeMask):
    """No query attends to padding: in batch item b, `lengths[b]` keys are tokens, and all other keys are padding.

    Args:
        lengths: the number of tokens of each batch item.
        side: "right" = the padding is after the tokens; "left" = the padding is before the tokens.

    Raises:
        TypeError: lengths is not a tensor of integers.
        ValueError: side is unknown, or a length is negative; or, raised by `attend`, the number of lengths is not the
            batch size.
    """

    lengths: Integer[Tensor, " batch"]
    side: Side = "right"
    per_query = False  # every query of a batch item may attend to the same keys

    def __post_init__(self) -> None:
        if self.side not in get_args(Side):
            raise ValueError(
                f'Padding(side={self.side!r}) is unknown; give "right" (the padding is after the tokens) or "left".'
            )
        check_integer_tensor("Padding", "lengths", self.lengths)
        check_lengths_not_negative("Padding", "lengths", self.lengths)

    @property
    def item_lengths(self) -> Integer[Tensor, " batch"]:  # type: ignore[override]
        return self.lengths

    def limits(self, position: Number, length: Number, keys: int) -> tuple[Number | None, Number | None]:
        return (None, length) if self.side == "right" else (keys - length, None)
