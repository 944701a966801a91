"""A trace as one picture: the text with one query's weights, the pattern of one head, and a grid of all heads."""

from pathlib import Path

from matplotlib.figure import Figure

from regard.tracing.decoder_note import decoder_note
from regard.tracing.focus import Focus, focus_on
from regard.tracing.tokens.places import Patch
from regard.tracing.tokens.token_reference import TokenReference
from regard.tracing.trace import Trace
from regard.views.patch_panels import frame_weights
from regard.views.picture.canvas import (
    CAPTION_LINE,
    INNER_WIDTH,
    MARGIN,
    WIDTH,
    blank_page,
    check_picture_path,
    save_figure,
)
from regard.views.picture.fonts import Fonts, quoted
from regard.views.picture.head_grid import GRID_WIDTH, lay_out_head_grid
from regard.views.picture.media import TITLE_HEIGHT, fonts_of, image_figure, sound_figure, write_title
from regard.views.picture.pattern import lay_out_pattern
from regard.views.picture.sentence import lay_out_sentence
from regard.views.shared_text import CAUTION, token_label

GRID_GAP = 0.4
"""The space between the pattern and the grid of heads, in inches."""


def write_figure(trace: Trace, path: Path, token: TokenReference | None = None, head: str | None = None) -> Path:
    """Draw one query's attention in one head of a trace into a .png, .svg or .pdf file, and return the path.

    Args:
        token: the position or text of the query token; None = chosen by `focus_on`.
        head: the name of the head, such as "L3H1"; None = chosen by `focus_on`.
    """
    check_picture_path(path)
    return save_figure(figure(trace, focus_on(trace, token=token, head=head)), path)


def figure(trace: Trace, focus: Focus) -> Figure:
    """Return a figure of one query's attention in one head: over an image, along a recording, or in a text."""
    if trace.images and any(isinstance(token.place, Patch) for token in focus.head.keys):
        return image_figure(trace, focus)
    return sound_figure(trace, focus) if frame_weights(focus) else text_figure(trace, focus)


def text_figure(trace: Trace, focus: Focus) -> Figure:
    fonts = fonts_of(trace, focus)
    text = lay_out_sentence(focus, fonts)
    pattern = lay_out_pattern(focus, fonts, INNER_WIDTH - GRID_WIDTH - GRID_GAP)
    heads = lay_out_head_grid(trace, focus, fonts)
    notes = " ".join([*text.notes, *pattern.notes, decoder_note(trace, focus.head.kind), CAUTION, fonts.advice])
    caption = fonts.lines(notes, 8.5, INNER_WIDTH)

    top = MARGIN + TITLE_HEIGHT + text.height + 0.3
    heads_top = top + max(0.0, pattern.top - heads.above)  # the cells of both begin at the same height
    bottom = max(top + pattern.height, heads_top + heads.height) + 0.25
    page = blank_page(bottom + CAPTION_LINE * len(caption) + MARGIN, fonts)
    write_title(page, trace, focus, finding(focus, fonts))
    text.draw(page, page.area(MARGIN, MARGIN + TITLE_HEIGHT, INNER_WIDTH, text.height))
    pattern.draw(page, MARGIN, top)
    # two gaps right of the pattern, or one if the page is too narrow
    heads.draw(page, min(WIDTH - MARGIN - GRID_WIDTH, MARGIN + pattern.width + 2 * GRID_GAP), heads_top)
    page.write_caption(bottom, caption)
    return page.figure


def finding(focus: Focus, fonts: Fonts) -> str:
    """Return a line such as "“it” looks most at “snake” (0.512)"."""
    query = quoted(fonts.shortened(token_label(focus.query, focus.head.queries), 10.5, 2.5))
    for strongest in focus.head.top(focus.query, 1):
        key = quoted(fonts.shortened(token_label(strongest.position, focus.head.keys), 10.5, 2.5))
        return f"{query} looks most at {key} ({strongest.weight:.3f})"
    return f"{query} sees nothing"
