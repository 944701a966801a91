"""Draws pictures, all in the same colours, and writes picture files. Positions are in inches from the top left."""

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
from regard.views.output_file import check_writable, write_output
from regard.views.picture.fonts import Fonts

WIDTH, MARGIN = 9.0, 0.35
INNER_WIDTH = WIDTH - 2 * MARGIN
"""The width between the margins of a page, in inches.

A page is 9 inches wide: a README shows it 900 pixels wide, so that a font of 9 points is 12.5 pixels high.
"""

CAPTION_LINE = 0.165
"""The height of a line of the caption below a picture, in inches."""

DPI = 200
"""The resolution of a PNG in dots per inch."""

INK, FAINT, EDGE, RULE, MASKED = "#16202c", "#5d6875", "#b9c1ca", "#e9edf1", "#e3e5e8"
"""INK is the colour of text and of the outline around the selected row or head, FAINT of captions, EDGE of frames, RULE
of lines between the cells of a grid, MASKED of masked cells."""

BLUE = "#1c5fa8"

BLUES = ("#ffffff", "#dceaf7", "#b7d4ea", "#84bcdb", "#539ecd", "#2b7bba", "#0f5aa3", "#08306b")
"""The colours of weights from 0 to 1, after ColorBrewer's Blues: darker means larger."""

ORANGES = ("#7f2704", "#a63603", "#d94801", "#f16913", "#fd8d3c", "#fdae6b", "#fdd0a2")
"""The colours of numbers below 0, from deep orange for -1, after ColorBrewer's Oranges; 0 is white."""

STEPS = [step * 10**power for power in range(12) for step in (1, 2, 5)]
"""The possible distances between two labelled positions on an axis."""

METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""The metadata of a picture file, by its ending: no date and no program, so that equal figures give equal bytes."""


@dataclass(frozen=True, slots=True)
class Page:
    figure: Figure
    fonts: Fonts

    def area(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add a rectangle without frame and ticks to the page, and return its axes. All numbers are in inches.

        `left` and `top` count from the top left of the page, the coordinates of the axes from the top left of the
        rectangle.
        """
        page_width, page_height = self.figure.get_size_inches()
        box = (left / page_width, 1 - (top + height) / page_height, width / page_width, height / page_height)
        axes = self.figure.add_axes(box, facecolor="none")
        axes.set_axis_off()
        axes.set(xlim=(0, width), ylim=(height, 0))
        return axes

    def write(
        self, axes: Axes, x: float, y: float, text: str, size: float, *, bold: bool = False, **style: Any
    ) -> None:
        """Write a text at the position (x, y) in the coordinates of `axes`.

        A $ does not begin a formula. Letters that no font has are written as □.

        Args:
            size: the font size in points.
            style: further arguments of matplotlib's `Axes.text`.
        """
        font = self.fonts.properties(size, bold)
        style = {"color": INK, "va": "baseline", **style}
        axes.text(x, y, self.fonts.drawable(text), fontproperties=font, parse_math=False, clip_on=False, **style)

    def write_lines(self, axes: Axes, lines: Sequence[str], height: float, **style: Any) -> None:
        """Write lines of small text into `axes` from the top downwards; a line is `height` inches high.

        The baseline of a line is 0.12 inches below its top; the font size is that of captions, 8.5 points.
        """
        for number, line in enumerate(lines):
            self.write(axes, 0.0, height * number + 0.12, line, 8.5, **style)

    def write_caption(self, top: float, lines: Sequence[str]) -> None:
        area = self.area(MARGIN, top, INNER_WIDTH, CAPTION_LINE * len(lines))
        self.write_lines(area, lines, CAPTION_LINE, color=FAINT)


def blank_page(height: float, fonts: Fonts) -> Page:
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)  # so that matplotlib needs no display and no pyplot
    return Page(figure, fonts)


def weight_colours() -> Colormap:
    return LinearSegmentedColormap.from_list("weights", BLUES).with_extremes(bad=MASKED)


def signed_colours() -> Colormap:
    return LinearSegmentedColormap.from_list("signed", ORANGES + BLUES).with_extremes(bad=MASKED)


def draw_cells(axes: Axes, image: np.ndarray, scale: Normalize, gid: str) -> None:
    """Draw a matrix as a grid of coloured cells that fills `axes`.

    Args:
        image: [rows columns] of numbers, or [rows columns 3] of RGB colours.
        scale: the range of the numbers, coloured from white to deep blue; numbers below 0 are orange.
        gid: the name of the image in an SVG file.
    """
    extent = (0.0, axes.get_xlim()[1], axes.get_ylim()[0], 0.0)
    colours = signed_colours() if (scale.vmin or 0.0) < 0 else weight_colours()
    axes.imshow(image, cmap=colours, norm=scale, interpolation="none", aspect="auto", extent=extent, gid=gid)


def outline(colour: str, points: float) -> dict[str, Any]:
    """Return the matplotlib style of an outline, `points` wide, that is drawn above all else."""
    return {"facecolor": "none", "edgecolor": colour, "linewidth": points, "clip_on": False, "zorder": 3}


def text_colour(weight: float) -> str:
    return "white" if weight > 0.67 else INK  # the contrast ratio of text and cell is then at least 4


def check_picture_path(path: Path) -> Path:
    """Return `path`; raise InputError if it does not end in .png, .svg or .pdf, or if it cannot be written."""
    if path.suffix.lower() not in METADATA:
        raise InputError(f"cannot tell what kind of picture {path} is; its name must end in .png, .svg or .pdf.")
    return check_writable(path)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure into a file, in the format that its ending names, and return the path."""
    return write_output(path, rendered(figure, path.suffix.lower(), DPI))


def rendered(figure: Figure, ending: str = ".png", dpi: int = 90) -> bytes:
    """Return a figure as the bytes of an image file. Equal figures give equal bytes.

    Args:
        ending: the format, ".png", ".svg" or ".pdf".
        dpi: dots per inch; the default is low, because a notebook stores the picture.
    """
    content = io.BytesIO()
    # No hinting (moving the outlines of letters to whole pixels): a text has the same width at every resolution.
    settings = {"svg.hashsalt": "regard", "svg.fonttype": "path", "svg.image_inline": True, "text.hinting": "none"}
    with matplotlib.rc_context(settings):
        figure.savefig(content, format=ending[1:], dpi=dpi, facecolor="white", metadata=METADATA[ending])
    return content.getvalue()
