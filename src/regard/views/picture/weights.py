"""Draw the attention weights of a `Pattern`: a grid of queries × keys for each head of the first batch item."""

from matplotlib.figure import Figure

from regard.attention.pattern import Pattern
from regard.tracing.head import Head
from regard.tracing.tokens.readable_tokens import Token
from regard.views.picture.canvas import FAINT, MARGIN, blank_page, draw_cells
from regard.views.picture.fonts import fonts_for
from regard.views.picture.heads import INNER_WIDTH, LINE_HEIGHT, draw_frames, mosaic_of, notes, whole_pixels
from regard.views.picture.pattern import SHADES

TITLE_HEIGHT, CAPTION_GAP = 0.4, 0.2
"""The height of the title, and the space between the patterns and the caption, in inches."""


def weights_figure(pattern: Pattern) -> Figure:
    """Return a figure of the weights of a pattern: a grid of queries × keys for each head of the first batch item."""
    queries, keys = ((Token("", ""),) * tokens for tokens in pattern.shape[2:])
    mosaic = mosaic_of([Head("", 0, head, pattern, queries, keys) for head in range(pattern.n_heads)], one_layer=True)
    fonts = fonts_for(repr(pattern))
    rows, columns = mosaic.shape
    side = whole_pixels(INNER_WIDTH / max(columns, mosaic.size[1] * 3))
    first = ["The first item of the batch."] * (pattern.shape[0] > 1)
    caption = fonts.lines(" ".join([*first, *notes(mosaic)]), 8.5, INNER_WIDTH)
    bottom = MARGIN + TITLE_HEIGHT + rows * side + CAPTION_GAP
    page = blank_page(bottom + LINE_HEIGHT * len(caption) + MARGIN, fonts)
    title = page.area(MARGIN, MARGIN, INNER_WIDTH, TITLE_HEIGHT)
    page.write(title, 0.0, 0.16, fonts.shortened(repr(pattern), 10.5, INNER_WIDTH), 10.5)
    axes = page.area(MARGIN, MARGIN + TITLE_HEIGHT, columns * side, rows * side)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    draw_cells(axes, mosaic.image(), SHADES, "patterns")
    draw_frames(axes, mosaic, side)
    page.write_lines(
        page.area(MARGIN, bottom, INNER_WIDTH, LINE_HEIGHT * len(caption)), caption, LINE_HEIGHT, color=FAINT
    )
    return page.figure
