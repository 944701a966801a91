"""A page of a picture: parts placed in inches from its top left, one set of colours, and the file it becomes."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from regard.errors import InputError
from regard.views.output_file import writable, write_output
from regard.views.picture.fonts import Fonts

WIDTH, MARGIN = 9.0, 0.35
"""Of a page, in inches; 9 inches are 900 pixels in a README, so that 9 points are 12 pixels."""

DPI = 200
"""Of a PNG: sharp on screens of twice the density."""

INK, FAINT, EDGE, RULE, MASKED = "#16202c", "#5d6875", "#b9c1ca", "#e9edf1", "#e3e5e8"
"""Text and the outline of what is chosen; captions; frames; lines between cells; cells that a mask hides."""

BLUE = "#1c5fa8"
"""What weights are drawn with."""

BLUES = ("#ffffff", "#dceaf7", "#b7d4ea", "#84bcdb", "#539ecd", "#2b7bba", "#0f5aa3", "#08306b")
"""White for 0, deep blue for 1, after ColorBrewer's Blues: lightness alone tells the weights apart."""

STEPS = [step * 10**power for power in range(12) for step in (1, 2, 5)]
"""From one number along an axis to the next."""

METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""What a file would say about when and by what it was made is left out: one input, one file."""


@dataclass(frozen=True, slots=True)
class Page:
    """A figure to draw on, and the fonts for its text."""

    figure: Figure
    fonts: Fonts

    def area(self, left: float, top: float, width: float, height: float) -> Axes:
        """An area without frame or ticks whose coordinates are inches from its own top left."""
        page_width, page_height = self.figure.get_size_inches()
        box = (left / page_width, 1 - (top + height) / page_height, width / page_width, height / page_height)
        axes = self.figure.add_axes(box, facecolor="none")
        axes.set_axis_off()
        axes.set(xlim=(0, width), ylim=(height, 0))
        return axes

    def write(
        self, axes: Axes, x: float, y: float, text: str, size: float, *, bold: bool = False, **style: Any
    ) -> None:
        """Write a text as it stands: $ is a dollar."""
        font = self.fonts.properties(size, bold)
        style = {"color": INK, "va": "baseline", **style}
        axes.text(x, y, self.fonts.drawn(text), fontproperties=font, parse_math=False, clip_on=False, **style)

    def write_lines(self, axes: Axes, lines: Sequence[str], height: float, **style: Any) -> None:
        """Write small lines of text one below the other, each of some height in inches."""
        for number, line in enumerate(lines):
            self.write(axes, 0.0, height * number + 0.12, line, 8.5, **style)


def blank(height: float, fonts: Fonts) -> Page:
    """An empty white page of some height in inches."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)  # a figure that can be drawn with no display and no pyplot
    return Page(figure, fonts)


def colours() -> Colormap:
    """The colour of each weight from 0 to 1; grey for what a mask hides."""
    return LinearSegmentedColormap.from_list("weights", BLUES).with_extremes(bad=MASKED)


def shade(axes: Axes, image: np.ndarray, scale: Normalize, name: str) -> None:
    """Fill an area with cells, each coloured by its weight."""
    extent = (0.0, axes.get_xlim()[1], axes.get_ylim()[0], 0.0)
    axes.imshow(image, cmap=colours(), norm=scale, interpolation="none", aspect="auto", extent=extent, gid=name)


def frame(colour: str, points: float) -> dict[str, Any]:
    """The style of an outline over what it is drawn around."""
    return {"facecolor": "none", "edgecolor": colour, "linewidth": points, "clip_on": False, "zorder": 3}


def ink_on(weight: float) -> str:
    """What can be read on the colour of a weight."""
    return "white" if weight > 0.45 else INK


def picture_path(path: Path) -> Path:
    """The path, once it is known that a picture can be written there; asked before long work.

    Raises:
        InputError: its ending is none of .png, .svg and .pdf, or no file can be written there.
    """
    if path.suffix.lower() not in METADATA:
        raise InputError(f"cannot tell what kind of picture {path} is; its name must end in .png, .svg or .pdf.")
    return writable(path)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as the kind of picture that the file's ending names; the same figure gives the same bytes."""
    ending, memory = path.suffix.lower(), io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "regard", "svg.fonttype": "path", "svg.image_inline": True}):
        figure.savefig(memory, format=ending[1:], dpi=DPI, facecolor="white", metadata=METADATA[ending])
    return write_output(path, memory.getvalue())
