"""A trace as one picture: the text with one query's weights, the pattern of one head, and a grid of all heads."""

from pathlib import Path

from matplotlib.figure import Figure

from regard.tracing.focus import Focus, focus_on
from regard.tracing.tokens.places import Patch
from regard.tracing.tokens.token_reference import TokenReference
from regard.tracing.trace import Trace
from regard.views.patch_panels import frame_weights
from regard.views.picture.canvas import FAINT, MARGIN, WIDTH, blank_page, check_picture_path, save_figure
from regard.views.picture.fonts import Fonts, fonts_for, quoted
from regard.views.picture.head_grid import lay_out_head_grid
from regard.views.picture.media import TITLE_HEIGHT, image_figure, sound_figure, write_title
from regard.views.picture.pattern import lay_out_pattern
from regard.views.picture.sentence import lay_out_sentence
from regard.views.shared_text import CAUTION, decoder_note, token_label

GRID_WIDTH, TALLEST_GRID, GRID_GAP, TALLEST_PATTERN = 2.45, 3.5, 0.4, 6.0
"""In inches: the width of the grid of heads, its largest height, the space between pattern and grid, and the largest
height of the pattern."""

CAPTION_LINE = 0.165
"""The height of a line of the caption, in inches."""


def write_figure(trace: Trace, path: Path, token: TokenReference | None = None, head: str | None = None) -> Path:
    """Draw one query's attention in one head of a trace into a picture file, and return the path.

    If the keys are image patches or moments of sound, the weights are drawn over the image or over time.

    Args:
        path: the path of the file, which ends in .png, .svg or .pdf.
        token: the position or text of the query token; None = chosen by `focus_on`.
        head: the name of the head, such as "L3H1"; None = chosen by `focus_on`.

    Raises:
        InputError: the path does not end in .png, .svg or .pdf; the token or head does not exist; or the file cannot be
            written.
    """
    check_picture_path(path)
    return save_figure(figure(trace, focus_on(trace, token=token, head=head)), path)


def figure(trace: Trace, focus: Focus) -> Figure:
    """Return a figure of the attention of one query in one head, the query and the head in `focus`.

    If the keys are image patches or moments of sound, the weights are drawn over the image or over time.
    """
    if trace.images and any(isinstance(token.place, Patch) for token in focus.head.keys):
        return image_figure(trace, focus)
    return sound_figure(trace, focus) if frame_weights(focus) else text_figure(trace, focus)


def text_figure(trace: Trace, focus: Focus) -> Figure:
    """Return a figure of the query and head in `focus`: the text, the head's pattern, and a grid of all heads."""
    tokens = (*focus.head.queries, *focus.head.keys)
    fonts = fonts_for(trace.model + "".join(token.text for token in tokens))
    text = lay_out_sentence(focus, fonts)
    pattern = lay_out_pattern(focus, fonts, WIDTH - 2 * MARGIN - GRID_WIDTH - GRID_GAP, TALLEST_PATTERN)
    heads = lay_out_head_grid(trace, focus, fonts, GRID_WIDTH, TALLEST_GRID)
    notes = " ".join([*text.notes, *pattern.notes, decoder_note(trace, focus.head.kind), CAUTION, fonts.advice])
    caption = fonts.lines(notes, 8.5, WIDTH - 2 * MARGIN)

    top = MARGIN + TITLE_HEIGHT + text.height + 0.3
    heads_top = top + max(0.0, pattern.top - heads.above)
    bottom = max(top + pattern.height, heads_top + heads.height) + 0.25
    height = bottom + CAPTION_LINE * len(caption) + MARGIN
    page = blank_page(height, fonts)
    write_title(page, trace, focus, strongest_key(focus, fonts))
    text.draw(page, page.area(MARGIN, MARGIN + TITLE_HEIGHT, WIDTH - 2 * MARGIN, text.height))
    pattern.draw(page, MARGIN, top)
    heads.draw(page, min(WIDTH - MARGIN - GRID_WIDTH, MARGIN + pattern.width + 2 * GRID_GAP), heads_top)
    area = page.area(MARGIN, bottom, WIDTH - 2 * MARGIN, CAPTION_LINE * len(caption))
    page.write_lines(area, caption, CAPTION_LINE, color=FAINT)
    return page.figure


def strongest_key(focus: Focus, fonts: Fonts) -> str:
    """Return a line such as "“it” looks most at “snake” (0.512)", with the query and its strongest key."""
    strongest = focus.head.top(focus.query, 1)
    words = [token_label(focus.query, focus.head.queries)]
    words += [token_label(key.position, focus.head.keys) for key in strongest]
    query, *keys = (quoted(fonts.shortened(word, 10.5, 2.5)) for word in words)
    return f"{query} looks most at {keys[0]} ({strongest[0].weight:.3f})" if strongest else f"{query} sees nothing"
