"""Draw the attention pattern of one head, with the name of the head above it."""

from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from regard.tracing.focus import most_salient
from regard.tracing.head import Head
from regard.views.picture.canvas import FAINT, MARGIN, WIDTH, blank_page, check_picture_path, save_figure
from regard.views.picture.fonts import fonts_for
from regard.views.picture.pattern import is_named, lay_out_pattern

TITLE_HEIGHT, TALLEST_PATTERN, LINE_HEIGHT = 0.4, 6.0, 0.165
"""The height of the title, the largest height of the pattern, and the height of a caption line, in inches."""


def write_head(head: Head, path: Path) -> Path:
    """Draw one head into a picture file, whose name ends in .png, .svg or .pdf, and return the path."""
    check_picture_path(path)
    return save_figure(head_figure(head, f"{head.kind} {head.name}"), path)


def head_figure(head: Head, title: str, *, is_outlined: bool = True) -> Figure:
    """Return the figure of one head: a title, its attention pattern, and how to read it.

    Args:
        title: the text above the pattern; empty = no title.
        is_outlined: whether the row of the query that `most_salient` chooses is outlined; if the queries are too many
            to be labelled, it is always outlined.
    """
    fonts = fonts_for(title + "".join(token.text for token in (*head.queries, *head.keys)))
    focus = most_salient([head], None)[1]
    pattern = lay_out_pattern(focus, fonts, WIDTH - 2 * MARGIN, TALLEST_PATTERN)
    pattern = replace(pattern, is_outlined=is_outlined or not is_named(head.queries))
    caption = fonts.lines(" ".join([*pattern.notes, fonts.advice]), 8.5, WIDTH - 2 * MARGIN)
    top = MARGIN + (TITLE_HEIGHT if title else 0.0)
    bottom = top + pattern.height + 0.15
    page = blank_page(bottom + LINE_HEIGHT * len(caption) + MARGIN, fonts)
    if title:
        axes = page.area(MARGIN, MARGIN, WIDTH - 2 * MARGIN, TITLE_HEIGHT)
        page.write(axes, 0.0, 0.16, title, 15.0, bold=True)
    pattern.draw(page, MARGIN, top)
    area = page.area(MARGIN, bottom, WIDTH - 2 * MARGIN, LINE_HEIGHT * len(caption))
    page.write_lines(area, caption, LINE_HEIGHT, color=FAINT)
    return page.figure
