"""Which source word each target word looked at: a table in the terminal, a picture with a circle for each weight."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from rich.style import Style
from rich.table import Table
from rich.text import Text
from torch import Tensor

from regard.views.figure_page import FAINT, INK, MARGIN, WIDTH, Page, blank, picture_path, save
from regard.views.figure_pattern import draw_circles
from regard.views.labels import fonts_for
from regard.views.terminal import mix, shade

CELL = 0.34
"""Inches: the side of a cell of the picture."""

SIZE = 10.0
"""Points: the size of its words."""

Words = Sequence[str]
Weights = Float[Tensor, "target source"]


def alignment_table(source: Words, target: Words, weights: Weights) -> Table:
    """A row for each target word, a column for each source word, in each cell a block as full as the weight."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    for word in source:
        table.add_column(Text(word, style="dim"), justify="center", no_wrap=True)
    for word, row in zip(target, weights.tolist(), strict=True):
        table.add_row(Text(word), *map(block, row))
    return table


def block(weight: float) -> Text:
    """A weight as a block, two cells wide."""
    return Text(shade(weight) * 2, style=Style(color=f"rgb({','.join(map(str, mix(weight)))})"))


def write_alignment(path: Path, source: Words, target: Words, weights: Weights, title: str = "") -> Path:
    """Write the picture of an alignment: the target's words down, the source's across, a circle for each weight.

    Args:
        weights: from 0 to 1.

    Raises:
        InputError: an ending other than .png, .svg and .pdf, or a file that cannot be written.
    """
    picture_path(path)
    fonts = fonts_for(title + "".join([*source, *target]))
    left = MARGIN + max(fonts.width(word, SIZE) for word in target) + 0.12
    above = max(fonts.width(word, SIZE) for word in source) * SLANTED + 0.2
    cell = min(CELL, (WIDTH - left - MARGIN) / len(source))
    top = MARGIN + (0.45 if title else 0.0) + above
    page = blank(top + cell * len(target) + MARGIN, fonts)
    right = max(left + cell * len(source) + above, MARGIN + fonts.width(title, 12, bold=True))
    page.figure.set_size_inches(min(WIDTH, right + MARGIN), page.figure.get_size_inches()[1])
    area = page.area(0, 0, *page.figure.get_size_inches())
    if title:
        page.write(area, MARGIN, MARGIN + 0.15, title, 12, bold=True)
    name_words(page, source, target, left, top, cell)
    width, height = cell * len(source), cell * len(target)
    axes = page.area(left, top, width, height)
    axes.set(xlim=(0, len(source)), ylim=(len(target), 0))
    draw_circles(axes, weights.detach().float().clamp(0, 1), torch.ones_like(weights, dtype=torch.bool))
    return save(page.figure, path)


SLANTED = 0.72
"""The height that a slanted word takes, of its width: it rises at 45 degrees."""


def name_words(page: Page, source: Words, target: Words, left: float, top: float, cell: float) -> None:
    """Write the target's words before their rows, the source's, slanted, above their columns."""
    area = page.area(0, 0, *page.figure.get_size_inches())
    for row, word in enumerate(target):
        page.write(area, left - 0.1, top + cell * (row + 0.5), word, SIZE, ha="right", va="center", color=INK)
    for column, word in enumerate(source):
        place = left + cell * (column + 0.4), top - 0.08
        page.write(area, *place, word, SIZE, rotation=45, ha="left", rotation_mode="anchor", color=FAINT)
