"""A notebook shows a `Pattern`, and the result of `attend`, as a picture of the attention weights."""

from regard.attention.pattern import Pattern
from regard.views.picture.canvas import rendered
from regard.views.picture.weights import weights_figure

MAX_DRAWN = 2**24
"""A notebook draws a pattern only if it has at most this many weights; to compute more would take seconds."""


def picture_of(pattern: Pattern) -> bytes | None:
    """Return a pattern as a PNG picture, or None if it has over MAX_DRAWN weights."""
    return rendered(weights_figure(pattern)) if pattern.shape.numel() <= MAX_DRAWN else None
