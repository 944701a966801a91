"""The part of a picture or a recording that a token stands for: a patch or a frame."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch: the rectangle of a picture that one token stands for.

    Attributes:
        image: the number of the picture, from 0.
        row, column: the row and the column of the patch in the grid of patches, counted from the top left.
        height, width: the size of the patch, in pixels of the picture that the model reads.
    """

    image: int
    row: int
    column: int
    height: float
    width: float


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: the part of a recording that one token stands for."""

    start_seconds: float
    end_seconds: float


Place = Patch | Frame
