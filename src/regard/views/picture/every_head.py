"""A picture of one number for every head: a grid of layers × heads, a list of heads, and the colour scale."""

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.views.picture.canvas import INNER_WIDTH, MARGIN, WIDTH, blank_page
from regard.views.picture.fonts import fonts_for
from regard.views.picture.head_grid import LINE_HEIGHT, NUMBERS_WIDTH, draw_grid, draw_list, draw_scale

HEAD_NUMBERS_HEIGHT, SCALE_HEIGHT, LIST_GAP = 0.5, 0.5, 0.5
"""In inches: the space above the grid for the numbers of heads, below the grid for the colour scale, and left of the
list of heads."""

LARGEST_CELL, TALLEST_GRID, LIST_WIDTH = 0.3, 9.0, 2.6
"""In inches: the largest side of a cell of the grid, the largest height of the grid, and the width of the list of
heads, the space left of the list included."""


def every_head_figure(
    numbers: Float[Tensor, "layers heads"],
    layers: Sequence[tuple[str, int]],
    texts: Sequence[str],
    listed: tuple[str, Sequence[tuple[str, str, float, bool]]],
    label: str,
    signed: bool = False,
) -> tuple[Figure, Axes]:
    """Return the figure, and the axes of its grid: a cell's top left corner is at x = number of the head, y = row.

    Args:
        numbers: the number of each head; NaN = the layer has no such head.
        layers: for each row, the kind of attention and the number of the layer.
        texts: the sentences above the grid.
        listed: the title of the list, and its rows: (name of a head, token, number, whether the line is bold).
        label: what the numbers are, beside the colour scale.
        signed: True = the scale goes from -largest to largest; False = from 0 to largest.
    """
    n_layers, n_heads = numbers.shape
    list_title, list_rows = listed
    side = min(LARGEST_CELL, (INNER_WIDTH - NUMBERS_WIDTH - LIST_WIDTH) / n_heads, TALLEST_GRID / n_layers)
    if len({kind for kind, _ in layers}) > 1:
        texts = [*texts, "Rows, from the top: " + ", ".join(f"{kind} L{layer}" for kind, layer in layers) + "."]
    fonts = fonts_for("".join(texts))
    lines = [line for text in texts for line in fonts.lines(text, 8.5, INNER_WIDTH)]
    texts_height = LINE_HEIGHT * len(lines) + HEAD_NUMBERS_HEIGHT
    grid_height, list_height = side * n_layers + SCALE_HEIGHT, LINE_HEIGHT * (1 + len(list_rows))
    page = blank_page(2 * MARGIN + texts_height + max(grid_height, list_height), fonts)
    page.write_lines(page.area(MARGIN, MARGIN, INNER_WIDTH, texts_height), lines, LINE_HEIGHT)
    left, top = MARGIN + NUMBERS_WIDTH, MARGIN + texts_height
    largest = numbers.abs().nan_to_num(0.0).max().item() or 1.0  # 1 if all numbers are 0: a scale needs a length
    smallest = -largest if signed else 0.0
    axes = draw_grid(page, left, top, numbers.numpy(), [n for _, n in layers], side, "heads", largest, smallest)
    if list_rows:
        list_left = left + side * n_heads + LIST_GAP
        draw_list(page, list_left, top, WIDTH - MARGIN - list_left, list_title, list_rows)
    draw_scale(page, left, top + side * n_layers + 0.16, label, largest, smallest)
    return page.figure, axes
