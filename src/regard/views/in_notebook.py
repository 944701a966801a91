"""Notebooks show a `Pattern`, and the result of `attend`, as a picture of the attention weights.

In a notebook, `import regard` calls `show_patterns`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

MAX_DRAWN = 2**24
"""A notebook draws a pattern only if it has at most this many weights; to compute more would take seconds."""


def show_patterns(display: Any) -> None:
    """Make an IPython `DisplayFormatter` show patterns as pictures.

    IPython is given the names of the classes, not the classes, so that `import regard` does not import torch.
    """
    pictures = display.formatters["image/png"]
    pictures.for_type_by_name("regard.attention.pattern", "Pattern", picture_of)
    pictures.for_type_by_name("regard.attention.attend", "Attended", lambda attended: picture_of(attended.pattern))


def picture_of(pattern: "Pattern") -> bytes | None:
    """Return a pattern as a PNG picture, or None if it has over MAX_DRAWN weights: IPython then shows text."""
    if pattern.shape.numel() > MAX_DRAWN:
        return None
    from regard.views.picture.canvas import rendered
    from regard.views.picture.weights import weights_figure

    return rendered(weights_figure(pattern))
