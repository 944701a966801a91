"""The alignment of target words to source words: a table in the terminal, a picture with a circle for each weight."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from regard.views.picture.canvas import FAINT, MARGIN, WIDTH, blank_page, check_picture_path, save_figure
from regard.views.picture.fonts import Fonts, fonts_for
from regard.views.picture.pattern import draw_circles
from regard.views.terminal.columns import Columns
from regard.views.terminal.trace import weight_block

CELL = 0.34
"""Inches: the side of a cell of the picture."""

SIZE = 10.0
"""Points: the font size of words."""

TITLE = 12.0
"""Points: the font size of the title."""

GAP = 0.1
"""Inches between the words and the cells."""

SLANTED = 0.72
"""The height of a word slanted by 45 degrees, as a share of its width."""

LARGEST_WORD = 0.8
"""The largest font size of a word, as a share of its cell's height."""

Words = Sequence[str]
Weights = Float[Tensor, "target source"]


def alignment_table(source: Words, target: Words, weights: Weights) -> Columns:
    """Return a table of target words × source words whose cells hold blocks that are fuller for larger weights."""
    rows = [[weight_block(weight) for weight in row] for _, row in zip(target, weights.tolist(), strict=True)]
    return Columns(target, source, rows, gap=2)


def write_alignment(path: Path, source: Words, target: Words, weights: Weights, title: str = "") -> Path:
    """Write the picture of an alignment: the target's words down, the source's across, a circle for each weight.

    Args:
        weights: from 0 to 1.

    Raises:
        InputError: an ending other than .png, .svg and .pdf, or a file that cannot be written.
    """
    check_picture_path(path)
    fonts = fonts_for(title + "".join([*source, *target]))
    left = MARGIN + largest_width(fonts, target) + GAP
    cell = min(CELL, (WIDTH - left - MARGIN) / len(source))
    above = largest_width(fonts, source) * SLANTED + GAP
    top = MARGIN + above + (2 * TITLE / 72 if title else 0.0)
    right = max(left + cell * len(source) + above, MARGIN + fonts.width(title, TITLE, bold=True)) + MARGIN
    page = blank_page(top + cell * len(target) + MARGIN, fonts)
    page.figure.set_figwidth(min(WIDTH, right))
    area = page.area(0.0, 0.0, float(page.figure.get_figwidth()), float(page.figure.get_figheight()))
    if title:
        page.write(area, MARGIN, MARGIN + 0.15, title, TITLE, bold=True)
    size = min(SIZE, LARGEST_WORD * 72 * cell)
    for row, word in enumerate(target):
        page.write(area, left - GAP, top + cell * (row + 0.5), word, size, ha="right", va="center")
    for column, word in enumerate(source):
        place = left + cell * (column + 0.4), top - GAP
        page.write(area, *place, word, size, rotation=45, ha="left", rotation_mode="anchor", color=FAINT)
    axes = page.area(left, top, cell * len(source), cell * len(target))
    axes.set(xlim=(0, len(source)), ylim=(len(target), 0))
    draw_circles(axes, weights.detach().float().clamp(0, 1), torch.ones_like(weights, dtype=torch.bool))
    return save_figure(page.figure, path)


def largest_width(fonts: Fonts, words: Words) -> float:
    """Return the width of the widest word, in inches."""
    return max(fonts.width(word, SIZE) for word in words)
