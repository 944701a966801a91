"""The web page of a trace in a frame, for a notebook."""

from html import escape

from regard.errors import InputError
from regard.tracing.focus import focus_on
from regard.tracing.trace import Trace
from regard.views.page import page

MAX_WEIGHTS = 5_000_000
"""The most weights of a page in a notebook, whose file stores the page: these take a few megabytes."""


def notebook_frame(trace: Trace) -> str:
    """Return an HTML frame with the page of a trace, or a text with the reason why there is no page."""
    try:
        n_weights = sum(step.pattern.shape.numel() for layers in trace.attended.values() for step in layers.values())
        if n_weights > MAX_WEIGHTS:
            raise InputError(
                f"{n_weights:,} weights, and a notebook shows at most {MAX_WEIGHTS:,}; write a page with "
                "trace.html(path), or trace fewer layers (layers=…)."
            )
        document = page(trace, focus_on(trace))
    except InputError as error:
        return f"<pre>{escape(f'{trace!r}: {error}')}</pre>"
    style = "width: 100%; height: 720px; border: 0"
    return f'<iframe title="regard" sandbox="allow-scripts" style="{style}" srcdoc="{escape(document)}"></iframe>'
