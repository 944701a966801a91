"""Draw the attention pattern of one head, with the name of the head above it."""

from matplotlib.figure import Figure

from regard.tracing.focus import most_salient
from regard.tracing.head import Head
from regard.views.picture.canvas import MARGIN, WIDTH, blank_page
from regard.views.picture.fonts import fonts_for
from regard.views.picture.pattern import lay_out_pattern

TITLE_HEIGHT, TALLEST_PATTERN = 0.4, 6.0
"""The height of the title, and the largest height of the pattern, in inches."""


def head_figure(head: Head) -> Figure:
    """Return the figure of one head: its name and its attention pattern.

    The row of the query that `most_salient` chooses is outlined.
    """
    fonts = fonts_for("".join(token.text for token in (*head.queries, *head.keys)))
    focus = most_salient([head], None)[1]
    pattern = lay_out_pattern(focus, fonts, WIDTH - 2 * MARGIN, TALLEST_PATTERN)
    page = blank_page(2 * MARGIN + TITLE_HEIGHT + pattern.height, fonts)
    axes = page.area(MARGIN, MARGIN, WIDTH - 2 * MARGIN, TITLE_HEIGHT)
    page.write(axes, 0.0, 0.16, f"{head.kind} {head.name}", 15.0, bold=True)
    pattern.draw(page, MARGIN, MARGIN + TITLE_HEIGHT)
    return page.figure
