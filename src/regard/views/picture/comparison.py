"""Draw the differences between two traces of one text as a grid of layers × heads.

The cell of a head shows, for the query that differs most, the fraction of its attention that goes to other keys in the
second trace than in the first.
"""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.tracing.comparison import Comparison
from regard.views.picture.canvas import INK, MARGIN, WIDTH, blank_page, check_picture_path, outline, save_figure
from regard.views.picture.fonts import fonts_for, quoted
from regard.views.picture.head_grid import LINE_HEIGHT, N_LISTED, NUMBERS_WIDTH, draw_grid, draw_list, draw_scale

LARGEST_CELL = 0.3
"""The largest side of a cell of the grid, in inches."""

LIST_WIDTH = 2.6
"""The width of the list of heads beside the grid, with the space between, in inches."""

TALLEST_GRID = 9.0
"""The largest height of the grid, in inches."""


def write_figure(comparison: Comparison, path: Path) -> Path:
    """Draw a comparison into a file whose name ends in .png, .svg or .pdf, and return the path."""
    check_picture_path(path)
    return save_figure(comparison_figure(comparison), path)


def comparison_figure(comparison: Comparison) -> Figure:
    """Return the figure of a comparison: a title, the grid of layers × heads, and the colour scale."""
    n_layers, n_heads = comparison.heads.shape
    side = min(LARGEST_CELL, (WIDTH - 2 * MARGIN - NUMBERS_WIDTH - LIST_WIDTH) / n_heads, TALLEST_GRID / n_layers)
    texts = title(comparison)
    fonts = fonts_for("".join(texts))
    lines = [line for text in texts for line in fonts.lines(text, 8.5, WIDTH - 2 * MARGIN)]
    above = LINE_HEIGHT * len(lines) + 0.5
    listed = [cell for cell in comparison.largest(N_LISTED) if cell[2] > 0]
    page = blank_page(2 * MARGIN + above + max(side * n_layers + 0.5, LINE_HEIGHT * (1 + len(listed))), fonts)
    page.write_lines(page.area(MARGIN, MARGIN, WIDTH - 2 * MARGIN, above), lines, LINE_HEIGHT)
    layers = [layer for _, layer in comparison.layers]
    left, top, largest = MARGIN + NUMBERS_WIDTH, MARGIN + above, float(comparison.heads.nan_to_num(0.0).max()) or 1.0
    axes = draw_grid(page, left, top, comparison.heads.numpy(), layers, side, "heads", largest)
    if (first := comparison.first) is not None:
        names = [[comparison.head_and_query(row, head)[0] for head in range(n_heads)] for row in range(n_layers)]
        row = next(row for row in range(n_layers) if first[0] in names[row])
        axes.add_patch(Rectangle((names[row].index(first[0]), row), 1, 1, **outline(INK, 1.6), gid="first-head"))
    rows = [(*cell, comparison.first is not None and cell[0] == comparison.first[0]) for cell in listed]
    if rows:
        beside = left + side * n_heads + 0.5
        draw_list(page, beside, top, WIDTH - MARGIN - beside, "heads that differ most, and the query", rows)
    draw_scale(page, left, top + side * n_layers + 0.16, "share of a query's attention", largest)
    return page.figure


def title(comparison: Comparison) -> list[str]:
    models = " and ".join(quoted(model) for model in comparison.models)
    lines = [f"{models}. Each cell: the largest share of its attention that a query moves to other keys."]
    first = comparison.first
    if first is None:
        lines.append(f"No difference: no share is above {comparison.at_most:g}.")
    else:
        lines.append(f"The first difference is in {first[0]}, for the query {quoted(first[1])}.")
    if comparison.output is not None:
        lines[-1] += f" The outputs differ by at most {comparison.output:.3g}."
    if len(comparison.tokens) > 1:
        lines.append("Rows, from the top: " + ", ".join(f"{kind} L{layer}" for kind, layer in comparison.layers) + ".")
    return lines
