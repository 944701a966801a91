"""Which source word each target word looked at: a table in the terminal, a picture with a circle for each weight."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from regard.views.picture.canvas import FAINT, MARGIN, WIDTH, blank, picture_path, save
from regard.views.picture.fonts import Fonts, fonts_for
from regard.views.picture.pattern import draw_circles
from regard.views.terminal.columns import Columns
from regard.views.terminal.trace import block

CELL = 0.34
"""Inches: the side of a cell of the picture."""

SIZE = 10.0
"""Points: the size of its words."""

TITLE = 12.0
"""Points: the size of its title."""

GAP = 0.1
"""Inches: between the words and the cells."""

SLANTED = 0.72
"""The height that a slanted word takes, of its width: it rises at 45 degrees."""

MOST_OF_A_CELL = 0.8
"""How much of a cell's height its word may take."""

Words = Sequence[str]
Weights = Float[Tensor, "target source"]


def alignment_table(source: Words, target: Words, weights: Weights) -> Columns:
    """A row for each target word, a column for each source word, in each cell a block as full as the weight."""
    rows = [[block(weight) for weight in row] for _, row in zip(target, weights.tolist(), strict=True)]
    return Columns(target, source, rows, gap=2)


def write_alignment(path: Path, source: Words, target: Words, weights: Weights, title: str = "") -> Path:
    """Write the picture of an alignment: the target's words down, the source's across, a circle for each weight.

    Args:
        weights: from 0 to 1.

    Raises:
        InputError: an ending other than .png, .svg and .pdf, or a file that cannot be written.
    """
    picture_path(path)
    fonts = fonts_for(title + "".join([*source, *target]))
    left = MARGIN + widest(fonts, target) + GAP
    cell = min(CELL, (WIDTH - left - MARGIN) / len(source))
    above = widest(fonts, source) * SLANTED + GAP
    top = MARGIN + above + (2 * TITLE / 72 if title else 0.0)
    right = max(left + cell * len(source) + above, MARGIN + fonts.width(title, TITLE, bold=True)) + MARGIN
    page = blank(top + cell * len(target) + MARGIN, fonts)
    page.figure.set_figwidth(min(WIDTH, right))
    area = page.area(0.0, 0.0, float(page.figure.get_figwidth()), float(page.figure.get_figheight()))
    if title:
        page.write(area, MARGIN, MARGIN + 0.15, title, TITLE, bold=True)
    size = min(SIZE, MOST_OF_A_CELL * 72 * cell)
    for row, word in enumerate(target):
        page.write(area, left - GAP, top + cell * (row + 0.5), word, size, ha="right", va="center")
    for column, word in enumerate(source):
        place = left + cell * (column + 0.4), top - GAP
        page.write(area, *place, word, size, rotation=45, ha="left", rotation_mode="anchor", color=FAINT)
    axes = page.area(left, top, cell * len(source), cell * len(target))
    axes.set(xlim=(0, len(source)), ylim=(len(target), 0))
    draw_circles(axes, weights.detach().float().clamp(0, 1), torch.ones_like(weights, dtype=torch.bool))
    return save(page.figure, path)


def widest(fonts: Fonts, words: Words) -> float:
    """The width of the widest word, in inches."""
    return max(fonts.width(word, SIZE) for word in words)
