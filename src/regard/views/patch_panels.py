"""The attention weights of a query on image patches, grouped by picture, and on frames of a recording."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.tracing.focus import Focus
from regard.tracing.tokens.places import Frame, Patch


@dataclass(frozen=True, slots=True)
class PatchPanel:
    """The weights of a query on the patches of one picture, one thumbnail, or several merged frames of a video.

    Attributes:
        name: the name of the picture, such as "picture 1"; empty if there is only one panel.
        rows, columns: the range of the patches' row numbers, and of their column numbers.
    """

    name: str
    weights: tuple[tuple[Patch, float], ...]

    @property
    def first_patch(self) -> Patch:
        return self.weights[0][0]

    @property
    def total(self) -> float:
        return sum(weight for _, weight in self.weights)

    @property
    def rows(self) -> range:
        rows = [patch.row for patch, _ in self.weights]
        return range(min(rows), max(rows) + 1)

    @property
    def columns(self) -> range:
        columns = [patch.column for patch, _ in self.weights]
        return range(min(columns), max(columns) + 1)

    @property
    def seconds_per_pixel(self) -> float | None:
        """How much time a pixel of a spectrogram's picture is wide; None for pictures and frames of a video."""
        first = self.first_patch
        for patch, _ in self.weights:
            if first.start_seconds is None or patch.start_seconds is None:
                return None
            if patch.start_seconds != first.start_seconds:
                return (patch.start_seconds - first.start_seconds) / (patch.left - first.left)
        return None  # all patches have the time of the frame

    def grid(self) -> Float[np.ndarray, "rows columns"]:
        """Return the weights as a matrix, arranged as the patches are in the picture; 0 where there is no patch."""
        grid = np.zeros((len(self.rows), len(self.columns)))
        for patch, weight in self.weights:
            grid[patch.row - self.rows.start, patch.column - self.columns.start] = weight
        return grid


@dataclass(frozen=True, slots=True)
class WeightScale:
    """The colour scale of weights on patches. It begins at the smallest weight above 0, not at 0, so that almost equal
    weights can be told apart; a weight of 0 has no colour.
    """

    smallest: float
    largest: float

    @classmethod
    def of(cls, panels: Sequence[PatchPanel]) -> "WeightScale":
        weights = [weight for panel in panels for _, weight in panel.weights if weight > 0] or [0.0]
        return cls(min(weights), max(weights))

    def share(self, weight: float) -> float:
        """Return the place of a weight on the scale, from 0 (the smallest weight) to 1 (the largest weight)."""
        span = self.largest - self.smallest
        return (weight - self.smallest) / span if span > 0 else 1.0

    def label(self, share: float) -> str:
        """Return the weight at `share` (0 to 1) of the scale, with 3 decimals, or more if the scale is short."""
        span = self.largest - self.smallest
        decimals = 3
        if span > 0:
            decimals_of_two_digits = 1 - math.floor(math.log10(span))  # with them, the span has two significant digits
            decimals = min(12, max(3, decimals_of_two_digits))
        return f"{self.smallest + share * span:.{decimals}f}"


def patch_panels(focus: Focus, n_images: int) -> list[PatchPanel]:
    """Return the query's weights on image patches: a panel for each picture, and for each small copy of a picture.

    `n_images` is the number of pictures, or frames of a video, that the model read.
    """
    panels: dict[tuple[int, bool], list[tuple[Patch, float]]] = {}
    for token, weight in zip(focus.head.keys, focus.weights, strict=True):
        if isinstance(patch := token.place, Patch):
            panels.setdefault((patch.image, patch.thumbnail), []).append((patch, weight))
    names = {key: picture_name(patches[0][0], n_images) for key, patches in panels.items()}
    if len(panels) > 1:  # a single picture has no name, but needs one beside its thumbnail
        names = {key: name or "picture" for key, name in names.items()}
    return [PatchPanel(names[key], tuple(panels[key])) for key in sorted(panels)]


def frame_weights(focus: Focus) -> list[tuple[Frame, float]]:
    """Return the keys that are frames of a recording, each with its weight."""
    pairs = zip(focus.head.keys, focus.weights, strict=True)
    return [(token.place, weight) for token, weight in pairs if isinstance(token.place, Frame)]


def picture_name(patch: Patch, n_images: int) -> str:
    """Return the name of the picture, counted from 0, that contains a patch; empty if the model read one picture only.

    `n_images` is the number of pictures, or frames of a video, that the model read.

    >>> picture_name(Patch(image=0, row=0, column=0, height=16.0, width=16.0, thumbnail=True), n_images=2)
    'thumbnail of picture 0'
    >>> picture_name(Patch(4, 0, 0, 16.0, 16.0, n_images=2), n_images=8)  # two frames of an eight-frame video
    'frames 4 to 5'
    >>> picture_name(Patch(1, 0, 0, 16.0, 16.0, start_seconds=0.5, end_seconds=1.0), n_images=8)
    'frame 1, 0.50 to 1.00 s'
    """
    time = "" if patch.end_seconds is None else f", {patch.start_seconds:.2f} to {patch.end_seconds:.2f} s"
    if patch.n_images > 1:
        return f"frames {patch.image} to {patch.image + patch.n_images - 1}{time}"
    if time and n_images > 1:
        return f"frame {patch.image}{time}"
    picture = f"picture {patch.image}" if n_images > 1 else ""
    if patch.thumbnail:
        return f"thumbnail of {picture}" if picture else "thumbnail"
    return picture
