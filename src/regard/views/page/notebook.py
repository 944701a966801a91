"""The web page of a trace or a comparison as the output of a notebook cell: an HTML frame on top of a picture.

Notebooks that are not trusted, GitHub, and most formats of nbconvert remove the frame, because it runs a script. The
reader then sees the picture; for a translation, also a picture of the word alignment above it.
"""

import base64
from html import escape
from typing import Any
from weakref import WeakKeyDictionary

import torch
from matplotlib.figure import Figure

from regard.errors import InputError
from regard.tracing.comparison import Comparison
from regard.tracing.focus import focus_on
from regard.tracing.trace import Trace
from regard.views.alignment import alignment_figure
from regard.views.page import page
from regard.views.page.comparison import comparison_page
from regard.views.page.data import n_weights
from regard.views.picture.canvas import rendered
from regard.views.picture.comparison import comparison_figure
from regard.views.picture.trace import figure

MAX_WEIGHTS = 5_000_000
"""The largest number of weights of a trace that a notebook shows as a page, which then takes a few megabytes."""

FRAMES: WeakKeyDictionary[Trace, str] = WeakKeyDictionary()
"""The HTML of every trace, except those of translations, that a notebook has shown. A cell that shows a trace again
uses this HTML. The HTML of a translation also depends on its alignment."""

BOX = "position: relative; min-height: 860px"
FRAME = "position: absolute; inset: 0; width: 100%; height: 100%; border: 0; background: white"
"""The CSS of the frame that shows the page. Readers see the pictures behind the frame only where it is removed."""


def notebook_frame(trace: Trace, alignment: dict[str, Any] | None = None) -> str:
    """Return the HTML that a notebook shows for a trace: its page in a frame, and a picture where no frame is shown.

    If no page can show the trace, for example because of too many weights, the HTML is a line with the reason.

    Args:
        alignment: the word alignments of a translation, from `Translation.page_record`. A picture of the best
            candidate's alignment is put above the picture of the trace. None = the trace is not of a translation.
    """
    if alignment is None and trace in FRAMES:
        return FRAMES[trace]
    try:
        check_size(trace)
        focus = focus_on(trace)
        document = page(trace, focus, alignment)
    except InputError as error:
        return f"<pre>{escape(f'{trace!r}: {error}')}</pre>"
    pictures = image(figure(trace, focus), repr(trace))
    best = None if alignment is None else alignment["candidates"][0]
    if best is not None and best["alignment"]:  # the list of aligned pairs of words is not empty
        text, weights = best["text"], torch.tensor(best["weights"])
        aligned = alignment_figure(best["source_words"], best["target_words"], weights, title=text)
        pictures = image(aligned, f"word alignment of {trace.text!r} and {text!r}") + "<br>" + pictures
    frame = framed(document, pictures)
    if alignment is None:
        FRAMES[trace] = frame
    return frame


def comparison_frame(comparison: Comparison) -> str:
    """Return the HTML of a comparison: its page in a frame and a picture behind it, or why no page can show it."""
    try:
        for trace in comparison.traces:
            check_size(trace)
        document = comparison_page(comparison)
    except InputError as error:
        return f"<pre>{escape(f'{comparison!r}: {error}')}</pre>"
    return framed(document, image(comparison_figure(comparison), repr(comparison)))


def framed(document: str, pictures: str) -> str:
    frame = f'<iframe title="regard" sandbox="allow-scripts" style="{FRAME}" srcdoc="{escape(document)}"></iframe>'
    return f'<div style="{BOX}">{pictures}{frame}</div>'


def image(figure: Figure, text: str) -> str:
    """Return a figure as an HTML image, with a `text` for readers who cannot see it."""
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{base64.b64encode(rendered(figure)).decode()}">'


def check_size(trace: Trace) -> None:
    if n_weights(trace) > MAX_WEIGHTS:
        raise InputError(
            f"{n_weights(trace):,} weights, and a notebook shows at most {MAX_WEIGHTS:,}; write a page with "
            "trace.html(path), or trace fewer layers (layers=…)."
        )
