"""A small grid of layers × heads that shows the largest weight of one query in each head.

Weights on special tokens, on punctuation and on the query itself do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from regard.tracing.focus import Focus, strongest_other_words
from regard.tracing.head import Head
from regard.tracing.trace import Trace
from regard.views.picture.canvas import BLUE, EDGE, FAINT, INK, STEPS, Page, draw_cells, outline
from regard.views.picture.fonts import Fonts, quoted
from regard.views.shared_text import token_label

GRID_WIDTH, TALLEST_GRID, LARGEST_CELL = 2.45, 3.5, 0.24
"""In inches: the width of the grid and its labels, the largest height of the grid, and the largest side of a cell."""

NUMBERS_WIDTH, LINE_HEIGHT = 0.4, 0.17
"""The space for the layer numbers left of the grid, and the height of a line of text, in inches."""

TITLE_TO_GRID, GRID_TO_LIST = 0.42, 0.6
"""In inches: the space between the title and the grid, with the numbers of heads; and between the grid and the list of
heads, with the colour scale."""

N_LISTED = 8
"""The largest number of heads in the list below the grid of layers × heads."""


@dataclass(frozen=True, slots=True, eq=False)
class HeadGrid:
    """A grid of layers × heads, and below it a list of the heads with the largest weights of one query.

    Attributes:
        focus: the query token, and the head whose cell is outlined.
        n_heads: the largest number of heads in a layer.
        layers: the number of the layer of each row.
        strongest: for each head, the query's largest weight on another word, as (head, key position, weight); the
            largest weight first.
        side: the side of a cell, in inches.
        above: the height of the title and of the row of head numbers, in inches.
    """

    focus: Focus
    layers: list[int]
    n_heads: int
    strongest: list[tuple[Head, int, float]]
    fonts: Fonts

    @property
    def side(self) -> float:
        return min(LARGEST_CELL, (GRID_WIDTH - NUMBERS_WIDTH) / self.n_heads, TALLEST_GRID / len(self.layers))

    @property
    def title(self) -> list[str]:
        name = self.fonts.shortened(token_label(self.focus.query, self.focus.head.queries), 8.5, GRID_WIDTH / 2)
        content = f"{quoted(name)} looks at no other word"
        if self.strongest:
            content = f"the largest weight that {quoted(name)} gives to another word"
        return self.fonts.lines(f"Every head: {content}", 8.5, GRID_WIDTH)

    @property
    def above(self) -> float:
        return LINE_HEIGHT * len(self.title) + TITLE_TO_GRID

    @property
    def height(self) -> float:
        list_height = LINE_HEIGHT * (1 + min(N_LISTED, len(self.strongest)))
        return self.above + self.side * len(self.layers) + (GRID_TO_LIST + 0.3) + list_height

    def draw(self, page: Page, left: float, top: float) -> None:
        n_heads, layers, side = self.n_heads, self.layers, self.side
        page.write_lines(page.area(left, top, GRID_WIDTH, self.above), self.title, LINE_HEIGHT)
        weights = {(head.layer, head.head): weight for head, _, weight in self.strongest}
        image = np.array([[weights.get((layer, head), 0.0) for head in range(n_heads)] for layer in layers])
        axes = draw_grid(page, left + NUMBERS_WIDTH, top + self.above, image, layers, side, "heads")
        head_number = self.focus.head.head  # None = the average over the heads of the layer
        outlined_heads = range(n_heads) if head_number is None else [head_number]
        corner = outlined_heads[0], layers.index(self.focus.head.layer)
        axes.add_patch(Rectangle(corner, len(outlined_heads), 1, **outline(INK, 1.6), gid="chosen-head"))
        below = top + self.above + len(layers) * side
        draw_scale(page, left + NUMBERS_WIDTH, below + 0.16)
        list_rows = [
            (head.name, token_label(key, head.keys), weight, head.name == self.focus.head.name)
            for head, key, weight in self.strongest[:N_LISTED]
        ]
        if list_rows:
            list_width = GRID_WIDTH - NUMBERS_WIDTH
            draw_list(page, left + NUMBERS_WIDTH, below + GRID_TO_LIST, list_width, "largest weights", list_rows)


def lay_out_head_grid(trace: Trace, focus: Focus, fonts: Fonts) -> HeadGrid:
    heads = trace.heads(focus.head.kind)
    layers, n_heads = sorted(trace.attended[focus.head.kind]), 1 + max(head.number for head in heads)
    return HeadGrid(focus, layers, n_heads, strongest_other_words(heads, focus.query), fonts)


def draw_list(
    page: Page, left: float, top: float, width: float, title: str, rows: Sequence[tuple[str, str, float, bool]]
) -> None:
    """Draw a title, and below it a line for each (name of a head, token, number, whether the line is bold)."""
    axes = page.area(left, top, width, LINE_HEIGHT * (1 + len(rows)))
    page.write(axes, 0.0, 0.12, title, 7.5, color=FAINT)
    for line, (head, token, number, bold) in enumerate(rows, start=1):
        y = LINE_HEIGHT * line + 0.12
        page.write(axes, 0.0, y, head, 8.5, bold=bold)
        page.write(axes, 0.62, y, page.fonts.shortened(token, 8.5, width - 1.1, bold), 8.5, bold=bold)
        page.write(axes, width, y, f"{number:.3f}", 8.5, bold=bold, color=BLUE, ha="right")


def draw_grid(
    page: Page,
    left: float,
    top: float,
    image: np.ndarray,
    layers: Sequence[int],
    side: float,
    gid: str,
    largest: float = 1.0,
    smallest: float = 0.0,
) -> Axes:
    """Draw a grid of layers × heads with the numbers of layers and heads, and return the axes of the grid.

    A cell is 1 × 1 in the coordinates of the axes. If there is no space for all numbers, only some are written.

    Args:
        left, top, side: the position of the grid on the page, and the side of a cell, in inches.
        image: [layers heads] of numbers; NaN = the layer has no such head.
        layers: the number of the layer of each row.
        gid: the name of the image in an SVG file.
        smallest: 0, or -`largest` for numbers of both signs.
    """
    rows, columns = image.shape
    axes = page.area(left, top, columns * side, rows * side)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    draw_cells(axes, image, Normalize(smallest, largest), gid)
    lines = [[(x, 0), (x, rows)] for x in range(1, columns)] + [[(0, y), (columns, y)] for y in range(1, rows)]
    axes.add_collection(LineCollection(lines, colors="white", linewidths=min(1.0, side * 6), zorder=2), autolim=False)
    axes.add_patch(Rectangle((0, 0), columns, rows, **outline(EDGE, 0.5)))
    # a length in inches, divided by `side`, is in cells, the coordinates of the axes
    step = next(step for step in STEPS if step * side >= 0.19)
    for head in range(0, columns, step):
        page.write(axes, head + 0.5, -0.06 / side, str(head), 7.0, color=FAINT, ha="center")
    for row in range(0, rows, step):
        page.write(axes, -0.06 / side, row + 0.5 + 0.035 / side, str(layers[row]), 7.0, color=FAINT, ha="right")
    page.write(axes, columns / 2, -0.22 / side, "head", 7.5, color=FAINT, ha="center")
    page.write(axes, -0.27 / side, rows / 2, "layer", 7.5, color=FAINT, ha="center", va="center", rotation=90)
    return axes


def draw_scale(
    page: Page, left: float, top: float, label: str = "weight", largest: float = 1.0, smallest: float = 0.0
) -> None:
    """Draw the colour scale for numbers from `smallest` to `largest`; `label`, beside it, says what the numbers are."""
    width, height = 1.2, 0.1
    axes = page.area(left, top, width, height)
    draw_cells(axes, np.linspace(smallest, largest, 121)[None], Normalize(smallest, largest), "scale")
    axes.add_patch(Rectangle((0, 0), width, height, **outline(EDGE, 0.5)))
    for share in (0.0, 0.5, 1.0):
        number = smallest + (largest - smallest) * share
        page.write(axes, width * share, 0.24, f"{number:.3g}", 7.0, color=FAINT, ha="center")
    page.write(axes, width + 0.12, 0.09, label, 7.0, color=FAINT)
