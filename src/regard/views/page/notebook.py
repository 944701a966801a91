"""The web page of a trace as notebook output: an HTML frame on top of a picture of the trace.

A notebook that is not trusted, GitHub, and most formats of nbconvert remove the frame, because it runs a script. The
reader then sees the picture behind it; of a translation, first a picture of its word alignment.
"""

import base64
from html import escape
from typing import Any

import torch
from matplotlib.figure import Figure

from regard.errors import InputError
from regard.tracing.focus import focus_on
from regard.tracing.trace import Trace
from regard.views.alignment import alignment_figure
from regard.views.page import page
from regard.views.page.data import n_weights
from regard.views.picture.canvas import rendered
from regard.views.picture.trace import figure

MAX_WEIGHTS = 5_000_000
"""The most weights that a trace may have to be shown as a page in a notebook. The page then takes a few megabytes."""

BOX = "position: relative; min-height: 860px"
FRAME = "position: absolute; inset: 0; width: 100%; height: 100%; border: 0; background: white"
"""The CSS of the frame, which covers the pictures."""


def notebook_frame(trace: Trace, alignment: dict[str, Any] | None = None) -> str:
    """Return the HTML that a notebook shows for a trace: the page in a frame, which covers a picture of the trace.

    The picture is seen where the notebook removes the frame; above it is the word alignment of a translation. If the
    trace is too large for a page, the HTML is a line of text with the reason.

    Args:
        alignment: the alignments of a translation, from `Translation.page_record`; None = no translation.
    """
    try:
        check_size(trace)
        focus = focus_on(trace)
        document = page(trace, focus, alignment)
    except InputError as error:
        return f"<pre>{escape(f'{trace!r}: {error}')}</pre>"
    best = alignment["candidates"][0] if alignment else {"alignment": []}
    pictures = image(figure(trace, focus), repr(trace))
    if best["alignment"]:
        text, weights = best["text"], torch.tensor(best["weights"])
        aligned = alignment_figure(best["source_words"], best["target_words"], weights, title=text)
        pictures = image(aligned, f"word alignment of {trace.text!r} and {text!r}") + "<br>" + pictures
    return (
        f'<div style="{BOX}">{pictures}'
        f'<iframe title="regard" sandbox="allow-scripts" style="{FRAME}" srcdoc="{escape(document)}"></iframe></div>'
    )


def image(figure: Figure, text: str) -> str:
    """Return a figure as an HTML image, with a text for readers who do not see it."""
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{base64.b64encode(rendered(figure)).decode()}">'


def check_size(trace: Trace) -> None:
    """Raise InputError if a trace has more weights than a notebook shows."""
    if n_weights(trace) > MAX_WEIGHTS:
        raise InputError(
            f"{n_weights(trace):,} weights, and a notebook shows at most {MAX_WEIGHTS:,}; write a page with "
            "trace.html(path), or trace fewer layers (layers=…)."
        )
