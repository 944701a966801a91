"""The attention pattern of one head: queries as rows, keys as columns, a circle or a shaded cell for each weight."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, LineCollection, PolyCollection
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle
from torch import Tensor

from regard.attention.grid.grid import spans, with_four_axes
from regard.attention.pattern import Pattern
from regard.attention.weights import BLOCK_WEIGHTS
from regard.tracing.focus import Focus
from regard.tracing.tokens.readable_tokens import Token
from regard.views.picture.canvas import BLUE, EDGE, FAINT, INK, MASKED, RULE, STEPS, Page, draw_cells, outline
from regard.views.picture.fonts import Fonts

MOST_CIRCLES, MOST_CELLS, MOST_NAMED = 40, 256, 60
"""Up to MOST_CIRCLES queries and keys, each weight is drawn as a circle; above that, as a shaded cell.

Up to MOST_CELLS queries and keys, each weight has its own cell. Up to MOST_NAMED queries, each query has a label, and
up to MOST_NAMED keys, each key."""

LARGEST_CELL, LARGEST_FLAT_CELL, LARGEST_CIRCLE = 0.36, 0.2, 0.94
"""The largest side of a square cell, and of a cell that is not square, in inches; and the diameter of the circle for a
weight of 1, as a fraction of the side of a cell."""

SMALLEST_DRAWN = 0.0005
"""The smallest weight that is drawn as a circle."""

TALLEST, LABEL_WIDTH, LABEL_GAP = 6.0, 1.1, 0.12
"""In inches: the largest height of a pattern with its labels, the largest width of a label, and the space for the gap
between a label and the pattern."""

SINE_45 = 0.71
"""A label that is w inches long is SINE_45 · w high and wide after a rotation by 45 degrees."""

SQUARE_ROOT_SCALE = PowerNorm(0.5, 0, 1)
"""The scale of colours: darkness is the square root of the weight, so that small weights of a long text are visible."""


@dataclass(frozen=True, slots=True, eq=False)
class PatternCells:
    """The weights of some heads as a grid of cells. With too many queries or keys, a cell stands for several weights.

    Attributes:
        weights: for each cell, its largest weight.
        allowed: for each cell, whether the mask allows at least one of its weights.
    """

    weights: Float[Tensor, "heads rows columns"]
    allowed: Bool[Tensor, "heads rows columns"]


def pattern_cells(pattern: Pattern, heads: Sequence[int], max_cells: int = MOST_CELLS) -> PatternCells:
    """Return the weights of some heads as a grid of cells, with at most `max_cells` rows and columns."""
    n_queries, n_keys = pattern.shape[2:]
    rows, columns = min(max_cells, n_queries), min(max_cells, n_keys)
    if (rows, columns) == (n_queries, n_keys):  # each weight has its own cell
        weights = pattern[0, list(heads)].detach()
    else:
        weights = pattern.pooled(rows, columns, "max")[0, list(heads)]
    return PatternCells(weights.cpu(), allowed_cells(pattern, heads, rows, columns))


def allowed_cells(
    pattern: Pattern, heads: Sequence[int], rows: int, columns: int
) -> Bool[Tensor, "heads rows columns"]:
    """Return, for each cell of a grid, whether the mask allows at least one of the weights that the cell stands for."""
    n_queries, n_keys = pattern.shape[2:]
    selected_heads = pattern.grid.whole().part(range(1), torch.tensor(heads))
    # query i belongs to row i · rows // n_queries, so a row begins at query row · n_queries / rows, rounded up
    first_queries = [-(-row * n_queries // rows) for row in range(rows + 1)]  # of the end, too
    first_keys = [-(-column * n_keys // columns) for column in range(columns)]
    allowed = np.ones((len(heads), rows, columns), dtype=bool)
    rows_per_block = max(1, BLOCK_WEIGHTS * rows // (len(heads) * n_queries * n_keys))
    for rows_of_block in spans(rows, rows_per_block):
        queries = range(first_queries[rows_of_block.start], first_queries[rows_of_block.stop])
        mask = pattern.keep(selected_heads.part(queries=queries))
        if mask is None:
            continue
        mask_of_item = with_four_axes(mask)[0]  # heads (or 1) × queries × keys
        by_query_and_key = mask_of_item.expand(-1, len(queries), n_keys).cpu().numpy()
        by_query_and_column = np.logical_or.reduceat(by_query_and_key, first_keys, axis=2)
        first_in_block = [first_queries[row] - queries.start for row in rows_of_block]
        by_row_and_column = np.logical_or.reduceat(by_query_and_column, first_in_block, axis=1)
        allowed[:, rows_of_block.start : rows_of_block.stop] = by_row_and_column
    return torch.from_numpy(allowed)


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """The drawing of the pattern of one head. All lengths are in inches.

    Attributes:
        focus: the head, and the query whose row is outlined.
        weights: for each cell, its weight; for a long text, a cell stands for several weights and has the largest.
        allowed: for each cell, whether the mask allows at least one of its weights.
        left, top, right, bottom: the space for labels on each side of the grid of cells.
        is_outlined: whether the row of the query in `focus` has an outline and its label is bold; True if no
            other query has a label.
    """

    focus: Focus
    weights: Float[Tensor, "rows columns"]
    allowed: Bool[Tensor, "rows columns"]
    cell_width: float
    cell_height: float
    left: float
    top: float
    right: float
    bottom: float
    is_outlined: bool = True

    @property
    def width(self) -> float:
        return self.left + self.cell_width * self.weights.shape[1] + self.right

    @property
    def height(self) -> float:
        return self.top + self.cell_height * self.weights.shape[0] + self.bottom

    @property
    def notes(self) -> list[str]:
        n_queries, n_keys = len(self.focus.head.queries), len(self.focus.head.keys)
        rows, columns = self.weights.shape
        encoding = "Pattern: darkness grows with the square root of the weight"
        if (rows, columns) != (n_queries, n_keys):
            pooling = f"{n_queries} × {n_keys} weights pooled to {rows} × {columns} cells, each showing its largest"
            encoding = f"Pattern: {pooling}; darkness grows with the square root of the weight"
        elif fits_circles(self.weights):
            encoding = "Circles: area = weight"
        sentences = [f"{encoding}; rows are queries, columns are keys."]
        if not self.allowed.all():
            sentences.append("Grey: hidden by the mask.")
        return sentences

    def draw(self, page: Page, left: float, top: float) -> None:
        rows, columns = self.weights.shape
        axes = page.area(left + self.left, top + self.top, columns * self.cell_width, rows * self.cell_height)
        axes.set(xlim=(0, columns), ylim=(rows, 0))
        if fits_circles(self.weights):
            draw_circles(axes, self.weights, self.allowed)
        else:
            draw_cells(
                axes, np.ma.masked_array(self.weights.numpy(), ~self.allowed.numpy()), SQUARE_ROOT_SCALE, "weights"
            )
        axes.add_patch(Rectangle((0, 0), columns, rows, **outline(EDGE, 0.5)))
        if self.is_outlined:
            self._outline_chosen_row(axes)
        label_queries = self._label_queries if is_named(self.focus.head.queries) else self._label_chosen_query
        label_keys = self._label_keys if is_named(self.focus.head.keys) else self._label_strongest_keys
        label_queries(page, axes)
        label_keys(page, axes)

    def _outline_chosen_row(self, axes: Axes) -> None:
        rows, columns = self.weights.shape
        row = self.focus.query * rows // len(self.focus.head.queries)
        dx, dy = 1.3 / 72 / self.cell_width, 1.3 / 72 / self.cell_height  # the line is 1.3 points wide; here in cells
        corner, size = (-dx / 2, row - dy / 2), (columns + dx, 1 + dy)
        axes.add_patch(Rectangle(corner, *size, **outline(INK, 1.3), gid="chosen-row"))

    def _label_queries(self, page: Page, axes: Axes) -> None:
        size, x = label_size(self.cell_height), -0.08 / self.cell_width
        below_middle = half_capital(size) / self.cell_height
        for row, token in enumerate(self.focus.head.queries):
            is_bold = self.is_outlined and row == self.focus.query
            text = label_text(token, size, page.fonts)
            page.write(axes, x, row + 0.5 + below_middle, text, size, bold=is_bold, ha="right")

    def _label_chosen_query(self, page: Page, axes: Axes) -> None:
        """Write the token of the query in `focus` left of its row, and some query positions right of the rows."""
        (rows, columns), n_queries = self.weights.shape, len(self.focus.head.queries)
        text, x = label_text(self.focus.token, 8.0, page.fonts), -0.08 / self.cell_width
        y = (self.focus.query + 0.5) * rows / n_queries + half_capital(8.0) / self.cell_height
        page.write(axes, x, y, text, 8.0, bold=True, ha="right")
        for position in axis_positions(n_queries):
            y = (position + 0.5) * rows / n_queries + half_capital(7.0) / self.cell_height
            page.write(axes, columns + 0.06 / self.cell_width, y, str(position), 7.0, color=FAINT)

    def _label_keys(self, page: Page, axes: Axes) -> None:
        size = label_size(self.cell_width)
        for column, token in enumerate(self.focus.head.keys):
            self._write_slanted(page, axes, (column + 0.5, -0.07 / self.cell_height), token, size)

    def _label_strongest_keys(self, page: Page, axes: Axes) -> None:
        """Write the query's five strongest keys above their columns, and some key positions below the columns."""
        (rows, columns), n_keys = self.weights.shape, len(self.focus.head.keys)
        strongest = sorted(key.position for key in self.focus.head.top(self.focus.query, 5))
        centres = [(key + 0.5) * columns / n_keys for key in strongest]
        label_positions = spread(centres, 0.15 / self.cell_width, float(columns))
        line_y = [0, -0.06 / self.cell_height, -0.22 / self.cell_height]  # inches, divided into cells
        for key, centre, x in zip(strongest, centres, label_positions, strict=True):
            axes.plot([centre, centre, x], line_y, color=FAINT, linewidth=0.6, clip_on=False)
            self._write_slanted(page, axes, (x, -0.25 / self.cell_height), self.focus.head.keys[key], 8.0)
        for position in axis_positions(n_keys):
            x = (position + 0.5) * columns / n_keys
            page.write(axes, x, rows + 0.15 / self.cell_height, str(position), 7.0, ha="center", color=FAINT)

    def _write_slanted(self, page: Page, axes: Axes, position: tuple[float, float], token: Token, size: float) -> None:
        """Write the token of a key upwards from a position (x, y), in cells from the top left of the pattern."""
        angle, text = label_angle(self.focus.head.keys), label_text(token, size, page.fonts)
        # Text is written on a baseline; the shift puts the middle of its capitals at `position`. Only half of the shift
        # is made in y, since downwards is towards the cells.
        x = position[0] + half_capital(size) / self.cell_width * math.sin(math.radians(angle))
        y = position[1] + half_capital(size) / self.cell_height * math.cos(math.radians(angle)) / 2
        page.write(axes, x, y, text, size, rotation=angle, rotation_mode="anchor", ha="left")


def lay_out_pattern(focus: Focus, fonts: Fonts, width: float) -> Drawing:
    """Return the drawing of the pattern of the head in `focus`, as large as fits into `width` × TALLEST inches.

    Cells are square if both queries and keys have labels, or if neither have labels. If only the queries have labels,
    the rows are stretched to give the labels space; if only the keys have labels, the columns are stretched.
    """
    cells = pattern_cells(focus.head.pattern, [focus.head.number])
    rows, columns = cells.weights.shape[1:]
    left, top, right, bottom = margins(focus, fonts, LARGEST_CELL, LARGEST_CELL)
    cell_width, cell_height = (width - left - right) / columns, (TALLEST - top - bottom) / rows
    if is_named(focus.head.queries) == is_named(focus.head.keys):
        cell_width = cell_height = min(LARGEST_CELL, cell_width, cell_height)
    else:
        cell_width, cell_height = min(LARGEST_FLAT_CELL, cell_width), min(LARGEST_FLAT_CELL, cell_height)
    left_top_right_bottom = margins(focus, fonts, cell_width, cell_height)
    return Drawing(focus, cells.weights[0], cells.allowed[0], cell_width, cell_height, *left_top_right_bottom)


def margins(focus: Focus, fonts: Fonts, cell_width: float, cell_height: float) -> tuple[float, float, float, float]:
    """Return the space for labels left of, above, right of and below a pattern, in inches."""
    queries, keys, size = focus.head.queries, focus.head.keys, label_size(cell_height)
    if is_named(queries):
        left, right = max(fonts.width(label_text(token, size, fonts), size, bold=True) for token in queries), 0.0
    else:
        left, right = fonts.width(label_text(focus.token, 8.0, fonts), 8.0, bold=True), 0.35
    if not is_named(keys):
        strongest = [key.token for key in focus.head.top(focus.query, 5)]
        longest = max((fonts.width(label_text(token, 8.0, fonts), 8.0) for token in strongest), default=0.0)
        # 0.4 inches for the lines from the columns to the labels, 0.22 for the positions below the columns
        return left + LABEL_GAP, longest * SINE_45 + 0.4, right, 0.22
    size = label_size(cell_width)
    label_widths = [fonts.width(label_text(token, size, fonts), size) for token in keys]
    if label_angle(keys) == 90:
        return left + LABEL_GAP, max(label_widths) + LABEL_GAP, right, 0.0
    # A label at 45 degrees can end right of the pattern; its length is counted with some space at its ends.
    for column, width in enumerate(label_widths):
        from_middle_to_end = (len(keys) - column - 0.5) * cell_width
        right = max(right, SINE_45 * (width + 0.15) - from_middle_to_end)
    return left + LABEL_GAP, SINE_45 * (max(label_widths) + 0.2), right, 0.0


def draw_circles(axes: Axes, weights: Float[Tensor, "rows columns"], allowed: Bool[Tensor, "rows columns"]) -> None:
    """Draw each weight as a circle whose area is proportional to the weight; a cell that the mask hides is grey."""
    rows, columns = weights.shape
    squares = [[(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)] for y, x in (~allowed).nonzero().tolist()]
    masked_cells = PolyCollection(squares, facecolors=MASKED, edgecolors="none", gid="masked", zorder=0)
    axes.add_collection(masked_cells, autolim=False)
    lines = [[(x, 0), (x, rows)] for x in range(1, columns)] + [[(0, y), (columns, y)] for y in range(1, rows)]
    axes.add_collection(LineCollection(lines, colors=RULE, linewidths=0.6, zorder=1), autolim=False)
    is_drawn = weights >= SMALLEST_DRAWN
    diameters = LARGEST_CIRCLE * weights[is_drawn].sqrt().numpy()
    circles = EllipseCollection(
        diameters,
        diameters,
        angles=np.zeros(len(diameters)),
        units="xy",
        offsets=is_drawn.nonzero().flip(1).numpy() + 0.5,  # (column, row) to (x, y) of the middle
        offset_transform=axes.transData,
        facecolors=BLUE,
        edgecolors="none",
        zorder=2,
        gid="weights",
    )
    axes.add_collection(circles, autolim=False)


def fits_circles(weights: Float[Tensor, "rows columns"]) -> bool:
    return max(weights.shape) <= MOST_CIRCLES


def is_named(tokens: Sequence[Token]) -> bool:
    """Return whether `tokens`, all queries or all keys, are few enough that each of them has a label."""
    return len(tokens) <= MOST_NAMED


def label_angle(keys: Sequence[Token]) -> int:
    """Return the rotation of the labels of the keys, in degrees."""
    return 90 if 24 < len(keys) <= MOST_NAMED else 45


def label_size(side: float) -> float:
    """Return the font size, in points, of the label of a row or column that is `side` inches high or wide."""
    return max(4.5, min(9.5, side * 72 * 0.75))  # three quarters of the side, but readable and not too large


def label_text(token: Token, size: float, fonts: Fonts) -> str:
    return fonts.shortened(token.text, size, LABEL_WIDTH)


def half_capital(size: float) -> float:
    """Return half the height of a capital letter, in inches, in a font of `size` points."""
    return size * 0.36 / 72  # a capital of DejaVu Sans is about 0.72 of the font size high; 72 points = 1 inch


def spread(positions: Sequence[float], distance: float, end: float) -> list[float]:
    """Return rising positions, moved so that neighbours are at least `distance` apart and none is above `end`.

    >>> spread([1.0, 1.5, 9.5], 2.0, 10.0)
    [1.0, 3.0, 9.5]
    """
    moved: list[float] = []
    for position in positions:
        moved.append(max(position, moved[-1] + distance) if moved else position)
    limit = end
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], limit)
        limit = moved[i] - distance
    return moved


def axis_positions(n_tokens: int) -> range:
    """Return about five to ten round numbers from 0 below `n_tokens`, the positions to number on an axis.

    >>> list(axis_positions(100)), list(axis_positions(1300))[:3]
    ([0, 10, 20, 30, 40, 50, 60, 70, 80, 90], [0, 200, 400])
    """
    step = next(step for step in STEPS if n_tokens <= 10 * step)
    return range(0, n_tokens, step)
