"""The alignment of a translation's words with the words of its source, as a table in the terminal or as a picture."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from regard.views.picture.canvas import FAINT, MARGIN, WIDTH, blank_page, check_picture_path, save_figure
from regard.views.picture.fonts import fonts_for
from regard.views.picture.pattern import draw_circles
from regard.views.terminal.columns import Columns
from regard.views.terminal.trace import weight_block

LARGEST_CELL, GAP, CAPTION_LINE = 0.34, 0.1, 0.17
"""In inches: the largest side of a cell of the grid, the space between words and grid, and the height of a line of the
caption."""

LARGEST_FONT_SIZE, TITLE_SIZE, CAPTION_SIZE = 10.0, 12.0, 8.0
"""The largest font size of the words, and the font sizes of the title and the caption, in points."""

CAPTION = "row: translation · column: source · area of a circle: weight"

ROTATED_HEIGHT = 0.72
"""A word that is w inches wide is 0.72 · w high after a rotation by 45 degrees (sin 45° = 0.71)."""

LARGEST_WORD = 0.8
"""The largest font size of a word, as a fraction of the height of a grid cell."""

Words = Sequence[str]
Weights = Float[Tensor, "target source"]


def alignment_table(source: Words, target: Words, weights: Weights) -> Columns:
    """Return a table with a row for each target word, a column for each source word, and a block for each weight."""
    # `target` is only here so that another number of words than of rows is refused
    rows = [[weight_block(weight) for weight in row] for _, row in zip(target, weights.tolist(), strict=True)]
    return Columns(target, source, rows, gap=2)


def write_alignment(
    path: Path, source: Words, target: Words, weights: Weights, title: str = "", rule: str = ""
) -> Path:
    """Write the figure of `alignment_figure` into a .png, .svg or .pdf file, and return the path."""
    check_picture_path(path)
    return save_figure(alignment_figure(source, target, weights, title, rule), path)


def alignment_figure(source: Words, target: Words, weights: Weights, title: str = "", rule: str = "") -> Figure:
    """Return a figure with a row for each target word, a column for each source word, and a circle for each weight.

    The area of a circle is proportional to its weight, from 0 to 1.

    Args:
        title: the text above the grid; empty = no title.
        rule: what the weights are, such as "cross-attention, layer 2, head 5", for the caption; empty = the caption
            does not say.
    """
    captions = [CAPTION, *([rule] if rule else [])]
    fonts = fonts_for(title + "".join([*source, *target]))
    target_width = max(fonts.width(word, LARGEST_FONT_SIZE) for word in target)
    source_width = max(fonts.width(word, LARGEST_FONT_SIZE) for word in source)
    left = MARGIN + target_width + GAP
    cell = min(LARGEST_CELL, (WIDTH - left - MARGIN) / len(source))
    words_height = source_width * ROTATED_HEIGHT + GAP
    top = MARGIN + words_height + (2 * TITLE_SIZE / 72 if title else 0.0)
    caption_width = max(fonts.width(line, CAPTION_SIZE) for line in captions)
    texts_width = max(fonts.width(title, TITLE_SIZE, bold=True), caption_width)
    # The first letter of a word is above its column; the word reaches as far right as up, since it is rotated by 45°.
    right = max(left + cell * len(source) + words_height, MARGIN + texts_width) + MARGIN
    bottom = top + cell * len(target)
    page = blank_page(bottom + CAPTION_LINE * (len(captions) + 0.5) + MARGIN, fonts)
    page.figure.set_figwidth(min(WIDTH, right))
    area = page.area(0.0, 0.0, float(page.figure.get_figwidth()), float(page.figure.get_figheight()))
    if title:
        title_baseline = MARGIN + 0.15
        page.write(area, MARGIN, title_baseline, title, TITLE_SIZE, bold=True)
    size = min(LARGEST_FONT_SIZE, LARGEST_WORD * 72 * cell)
    for row, word in enumerate(target):
        page.write(area, left - GAP, top + cell * (row + 0.5), word, size, ha="right", va="center")
    for column, word in enumerate(source):
        position = left + cell * (column + 0.4), top - GAP  # a little left of the middle of the column
        page.write(area, *position, word, size, rotation=45, ha="left", rotation_mode="anchor", color=FAINT)
    for line, caption in enumerate(captions, 1):
        page.write(area, MARGIN, bottom + CAPTION_LINE * (line + 0.5), caption, CAPTION_SIZE, color=FAINT)
    axes = page.area(left, top, cell * len(source), cell * len(target))
    axes.set(xlim=(0, len(source)), ylim=(len(target), 0))
    all_allowed = torch.ones_like(weights, dtype=torch.bool)
    draw_circles(axes, weights.detach().float().clamp(0, 1), allowed=all_allowed)
    return page.figure
