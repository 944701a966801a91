"""A head's pattern as a picture: queries down, keys across, a circle or a shade for each weight.

The area of a circle grows with its weight, so that twice the ink is twice the weight. Where circles would be too small
there is a heat cell for each weight, and past 256 tokens one for the largest of several.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, LineCollection, PolyCollection
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle
from torch import Tensor

from regard.attention.grid.grid import spans
from regard.attention.pattern import BLOCK_WEIGHTS, Pattern
from regard.attention.statistics.torch.gather import Block, Pooled
from regard.tracing.focus import Focus
from regard.tracing.tokens import Token
from regard.views.picture.canvas import BLUE, EDGE, FAINT, INK, MASKED, RULE, STEPS, Page, frame, shade
from regard.views.picture.fonts import Fonts

MOST_CIRCLES, MOST_CELLS, MOST_NAMED = 40, 256, 60
"""Tokens a side up to which weights are circles; cells there are at most; tokens that are all named."""

LARGEST_CELL, FULL = 0.36, 0.94
"""The side of a cell at most, in inches; the diameter of a weight of 1, as a share of it."""

SMALLEST = 0.0005
"""The least weight that has a circle; a smaller one would not be seen."""

LABEL = 1.1
"""The longest label, in inches."""

SHADES = PowerNorm(0.5, 0, 1)
"""Heat cells darken with the root of the weight: in a long text most weights are small."""


@dataclass(frozen=True, slots=True, eq=False)
class Maps:
    """The weights of some heads, or the largest in each cell where there are too many; and what may be seen at all."""

    weights: Float[Tensor, "heads rows columns"]
    seen: Bool[Tensor, "heads rows columns"]


def maps(pattern: Pattern, heads: Sequence[int], most: int = MOST_CELLS) -> Maps:
    """Some heads of a pattern in at most `most` × `most` cells each: the weights that the pattern itself gives."""
    rows, columns = (min(most, tokens) for tokens in pattern.shape[2:])
    each = (rows, columns) == pattern.shape[2:]
    weights = pattern[0, list(heads)].detach() if each else pattern.pooled(rows, columns, "max")[0, list(heads)]
    return Maps(weights.cpu(), seen_in(pattern, heads, rows, columns).cpu())


def seen_in(pattern: Pattern, heads: Sequence[int], rows: int, columns: int) -> Bool[Tensor, "heads rows columns"]:
    """The cells in which some query may attend to some key."""
    whole, like = pattern.grid.whole().part(range(1), torch.tensor(heads)), torch.empty((), device=pattern.device)
    cells = Pooled(replace(pattern.grid, batch=1, heads=len(heads)), like, rows, columns, "max")
    for queries in spans(pattern.grid.queries, max(1, BLOCK_WEIGHTS // (len(heads) * pattern.grid.keys))):
        tile = whole.part(queries=queries)
        keep = pattern.keep(tile)
        if keep is None:
            return torch.ones(len(heads), rows, columns, dtype=torch.bool)
        cells.add(Block(tile, keep.expand(tile.shape).to(like), None))
    return cells.value()[0] > 0


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """One head's pattern, its sizes known: `left` and `top` for labels, `side` for one cell, all in inches."""

    focus: Focus
    weights: Float[Tensor, "rows columns"]
    seen: Bool[Tensor, "rows columns"]
    side: float
    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """In inches, with labels."""
        return self.left + self.side * self.weights.shape[1] + self.right

    @property
    def height(self) -> float:
        """In inches, with labels."""
        return self.top + self.side * self.weights.shape[0] + self.bottom

    @property
    def notes(self) -> list[str]:
        """How to read it."""
        n_queries, n_keys = len(self.focus.head.queries), len(self.focus.head.keys)
        rows, columns = self.weights.shape
        reading = "rows look, columns are looked at"
        if (rows, columns) != (n_queries, n_keys):
            cells = f"{n_queries} × {n_keys} weights pooled to {rows} × {columns} cells, each showing its largest"
            notes = [f"Pattern: {cells}; darkness grows with the root of the weight; {reading}."]
        elif is_circles(self.weights):
            notes = [f"Circles: area = weight; {reading}."]
        else:
            notes = [f"Pattern: darkness grows with the root of the weight; {reading}."]
        return notes + ["Grey: hidden by the mask."] * (not bool(self.seen.all()))

    def draw(self, page: Page, left: float, top: float) -> None:
        """Draw it, its labels included, at a place in inches from the page's top left."""
        rows, columns = self.weights.shape
        axes = page.area(left + self.left, top + self.top, columns * self.side, rows * self.side)
        axes.set(xlim=(0, columns), ylim=(rows, 0))
        draw = draw_circles if is_circles(self.weights) else draw_heat
        draw(axes, self.weights, self.seen)
        row = self.focus.query * rows // len(self.focus.head.queries)
        thick = 1.3 / 72 / self.side  # drawn around the row, not over it
        corner, size = (-thick / 2, row - thick / 2), (columns + thick, 1 + thick)
        axes.add_patch(Rectangle((0, 0), columns, rows, **frame(EDGE, 0.5)))
        axes.add_patch(Rectangle(corner, *size, **frame(INK, 1.3), gid="chosen-row"))
        if named(self.focus):
            self._name_all(page, axes)
        else:
            self._name_some(page, axes)

    def _name_all(self, page: Page, axes: Axes) -> None:
        """Every token's name, at its row and over its column."""
        size = letters(self.side)
        drop = half_letter(size) / self.side
        for row, token in enumerate(self.focus.head.queries):
            text, chosen = short(token, size, page.fonts), row == self.focus.query
            page.write(axes, -0.08 / self.side, row + 0.5 + drop, text, size, bold=chosen, ha="right")
        for column, token in enumerate(self.focus.head.keys):
            self._write_slanted(page, axes, (column + 0.5, -0.07 / self.side), token, size)

    def _name_some(self, page: Page, axes: Axes) -> None:
        """The names of the looking token and of its strongest keys; positions for the others."""
        rows, columns = self.weights.shape
        n_queries, n_keys = len(self.focus.head.queries), len(self.focus.head.keys)
        row = (self.focus.query + 0.5) * rows / n_queries
        text = short(self.focus.token, 8.0, page.fonts)
        page.write(axes, -0.08 / self.side, row + 0.04 / self.side, text, 8.0, bold=True, ha="right")
        strongest = sorted(look.position for look in self.focus.head.top(self.focus.query, 5))
        places = [(key + 0.5) * columns / n_keys for key in strongest]
        for key, place, x in zip(strongest, places, spread(places, 0.15 / self.side, float(columns)), strict=True):
            leader = [0, -0.06 / self.side, -0.22 / self.side]
            axes.plot([place, place, x], leader, color=FAINT, linewidth=0.6, clip_on=False)
            self._write_slanted(page, axes, (x, -0.25 / self.side), self.focus.head.keys[key], 8.0)
        for position in positions(n_keys):
            x = (position + 0.5) * columns / n_keys
            page.write(axes, x, rows + 0.15 / self.side, str(position), 7.0, ha="center", color=FAINT)
        for position in positions(n_queries):
            y = (position + 0.5) * rows / n_queries
            page.write(axes, columns + 0.06 / self.side, y + 0.035 / self.side, str(position), 7.0, color=FAINT)

    def _write_slanted(self, page: Page, axes: Axes, place: tuple[float, float], token: Token, size: float) -> None:
        """A column's name, the middle of its letters rising from a place."""
        angle = slant(self.focus) if named(self.focus) else 45
        aside, text = half_letter(size) / self.side, short(token, size, page.fonts)
        x = place[0] + aside * math.sin(math.radians(angle))
        y = place[1] + aside * math.cos(math.radians(angle)) / 2
        page.write(axes, x, y, text, size, rotation=angle, rotation_mode="anchor", ha="left")


def drawing(focus: Focus, fonts: Fonts, width: float, tallest: float) -> Drawing:
    """A head's pattern as large as it fits into a width and a height, in inches, labels included."""
    of = maps(focus.head.pattern, [focus.head.head])
    rows, columns = of.weights.shape[1:]
    left, top, right, bottom = margins(focus, fonts, LARGEST_CELL)
    side = min(LARGEST_CELL, (width - left - right) / columns, (tallest - top - bottom) / rows)
    return Drawing(focus, of.weights[0], of.seen[0], side, *margins(focus, fonts, side))


def margins(focus: Focus, fonts: Fonts, side: float) -> tuple[float, float, float, float]:
    """The room for labels at the left, top, right and bottom of a pattern, in inches."""
    if not named(focus):
        longest = max(
            fonts.width(short(token, 8.0, fonts), 8.0, bold=True) for token in (focus.token, *looked_at(focus))
        )
        return longest + 0.12, longest * 0.71 + 0.4, 0.35, 0.22
    size = letters(side)
    left = max(fonts.width(short(token, size, fonts), size, bold=True) for token in focus.head.queries)
    above = [fonts.width(short(token, size, fonts), size) for token in focus.head.keys]
    if slant(focus) == 90:
        return left + 0.12, max(above) + 0.12, 0.0, 0.0
    ends = [(column - len(above) + 0.5) * side + 0.71 * (width + 0.15) for column, width in enumerate(above)]
    return left + 0.12, 0.71 * (max(above) + 0.2), max(0.0, *ends), 0.0


def draw_circles(axes: Axes, weights: Float[Tensor, "rows columns"], seen: Bool[Tensor, "rows columns"]) -> None:
    """A circle for each weight, its area in proportion, in cells one unit wide."""
    rows, columns = weights.shape
    hidden = [square(int(row), int(column)) for row, column in (~seen).nonzero()]
    grey = PolyCollection(hidden, facecolors=MASKED, edgecolors="none", gid="masked", zorder=0)
    axes.add_collection(grey, autolim=False)
    lines = [[(x, 0), (x, rows)] for x in range(1, columns)] + [[(0, y), (columns, y)] for y in range(1, rows)]
    axes.add_collection(LineCollection(lines, colors=RULE, linewidths=0.6, zorder=1), autolim=False)
    places = (weights >= SMALLEST).nonzero()
    diameters = FULL * weights[weights >= SMALLEST].sqrt().numpy()
    circles = EllipseCollection(
        diameters,
        diameters,
        np.zeros(len(diameters)),
        units="xy",
        offsets=places.flip(1).numpy() + 0.5,
        offset_transform=axes.transData,
        facecolors=BLUE,
        edgecolors="none",
        zorder=2,
        gid="weights",
    )
    axes.add_collection(circles, autolim=False)


def draw_heat(axes: Axes, weights: Float[Tensor, "rows columns"], seen: Bool[Tensor, "rows columns"]) -> None:
    """A shade for each weight, in cells one unit wide."""
    shade(axes, np.ma.masked_array(weights.numpy(), ~seen.numpy()), SHADES, "weights")


def is_circles(weights: Float[Tensor, "rows columns"]) -> bool:
    """Whether there are few enough weights for circles."""
    return max(weights.shape) <= MOST_CIRCLES


def named(focus: Focus) -> bool:
    """Whether every token has its name at its row and column."""
    return max(len(focus.head.queries), len(focus.head.keys)) <= MOST_NAMED


def slant(focus: Focus) -> int:
    """The angle of the columns' names: upright where there are many."""
    return 45 if len(focus.head.keys) <= 24 else 90


def letters(side: float) -> float:
    """The size of labels, in points, for cells of a side in inches."""
    return max(4.5, min(9.5, side * 72 * 0.75))


def looked_at(focus: Focus) -> list[Token]:
    """The tokens that are looked at most."""
    return [look.token for look in focus.head.top(focus.query, 5)]


def short(token: Token, size: float, fonts: Fonts) -> str:
    """A token's text, cut off where it is long."""
    return fonts.shortened(token.text, size, LABEL)


def square(row: int, column: int) -> list[tuple[int, int]]:
    """The corners of a cell."""
    return [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)]


def half_letter(size: float) -> float:
    """Half the height of a capital of some size in points, in inches: a line's middle over its baseline."""
    return size * 0.36 / 72


def spread(places: Sequence[float], distance: float, end: float) -> list[float]:
    """Places in rising order, moved apart to a distance but not past an end.

    >>> spread([1.0, 1.5, 9.5], 2.0, 10.0)
    [1.0, 3.0, 9.5]
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + distance) if moved else place)
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], end if i == len(moved) - 1 else moved[i + 1] - distance)
    return moved


def positions(n_tokens: int) -> range:
    """Round positions along an axis, some five to ten of them.

    >>> list(positions(100)), list(positions(1300))[:3]
    ([0, 10, 20, 30, 40, 50, 60, 70, 80, 90], [0, 200, 400])
    """
    return range(0, n_tokens, next(step for step in STEPS if n_tokens <= 10 * step))
