"""The attention pattern of one head as a picture."""

from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from regard.tracing.focus import most_salient
from regard.tracing.head import Head
from regard.views.picture.canvas import CAPTION_LINE, INNER_WIDTH, MARGIN, blank_page, check_picture_path, save_figure
from regard.views.picture.fonts import fonts_for
from regard.views.picture.pattern import is_named, lay_out_pattern

TITLE_HEIGHT = 0.4
"""The height of the title, in inches."""


def write_head(head: Head, path: Path) -> Path:
    check_picture_path(path)
    return save_figure(head_figure(head, f"{head.kind} {head.name}"), path)


def head_figure(head: Head, title: str, *, is_outlined: bool = True) -> Figure:
    """Return the figure of one head: a title, if `title` is not empty, its attention pattern, and how to read it.

    Args:
        is_outlined: whether the row of the query with the most salient weight (a large weight on a distant key) has an
            outline. If there are too many queries for labels, the row always has an outline.
    """
    fonts = fonts_for(title + "".join(token.text for token in (*head.queries, *head.keys)))
    _, focus = most_salient([head], query=None)
    pattern = lay_out_pattern(focus, fonts, INNER_WIDTH)
    pattern = replace(pattern, is_outlined=is_outlined or not is_named(head.queries))
    caption = fonts.lines(" ".join([*pattern.notes, fonts.advice]), 8.5, INNER_WIDTH)
    top = MARGIN + (TITLE_HEIGHT if title else 0.0)
    bottom = top + pattern.height + 0.15
    page = blank_page(bottom + CAPTION_LINE * len(caption) + MARGIN, fonts)
    if title:
        page.write(page.area(MARGIN, MARGIN, INNER_WIDTH, TITLE_HEIGHT), 0.0, 0.16, title, 15.0, bold=True)
    pattern.draw(page, MARGIN, top)
    page.write_caption(bottom, caption)
    return page.figure
