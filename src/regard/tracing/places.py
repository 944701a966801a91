"""The place of a token in a picture or a recording: a patch, or a frame."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patch:
    """A rectangle of a picture that is one token.

    Attributes:
        image: the number of the picture, from 0.
        row, column: the patch's place in the grid of patches, from the top left.
        height, width: its size in pixels of the picture that the model reads.
    """

    image: int
    row: int
    column: int
    height: float
    width: float


@dataclass(frozen=True, slots=True)
class Frame:
    """A part of a recording that is one token."""

    start_seconds: float
    end_seconds: float


Place = Patch | Frame
