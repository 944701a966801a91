"""The web page of a trace in a frame, for a notebook, over a picture for places where no script may run.

A notebook that is not trusted, GitHub and nbconvert's other formats take the frame out, because it runs a script. The
picture, which lies behind the frame, is then seen instead.
"""

import base64
from html import escape

from regard.errors import InputError
from regard.tracing.focus import focus_on
from regard.tracing.trace import Trace
from regard.views.page import page
from regard.views.picture.canvas import rendered
from regard.views.picture.trace import figure

MAX_WEIGHTS = 5_000_000
"""The most weights of a page in a notebook, whose file stores the page: these take a few megabytes."""

BOX = "position: relative; min-height: 860px"
FRAME = "position: absolute; inset: 0; width: 100%; height: 100%; border: 0; background: white"
"""The styles of the box, whose picture the frame covers."""


def notebook_frame(trace: Trace) -> str:
    """Return the page of a trace in an HTML frame, over its picture; or a text with the reason why there is no page."""
    try:
        n_weights = sum(step.pattern.shape.numel() for layers in trace.attended.values() for step in layers.values())
        if n_weights > MAX_WEIGHTS:
            raise InputError(
                f"{n_weights:,} weights, and a notebook shows at most {MAX_WEIGHTS:,}; write a page with "
                "trace.html(path), or trace fewer layers (layers=…)."
            )
        focus = focus_on(trace)
        document = page(trace, focus)
    except InputError as error:
        return f"<pre>{escape(f'{trace!r}: {error}')}</pre>"
    picture = base64.b64encode(rendered(figure(trace, focus))).decode()
    return (
        f'<div style="{BOX}"><img alt="{escape(repr(trace))}" src="data:image/png;base64,{picture}">'
        f'<iframe title="regard" sandbox="allow-scripts" style="{FRAME}" srcdoc="{escape(document)}"></iframe></div>'
    )
