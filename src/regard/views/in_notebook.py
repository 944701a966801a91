"""IPython's display of patterns: a notebook shows a `Pattern`, and the result of `attend`, as a picture of its weights.

`import regard` calls `show_patterns` in a notebook.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern

MAX_DRAWN = 2**24
"""The most weights of a pattern that a notebook draws; computing more would take seconds."""


def show_patterns(display: Any) -> None:
    """Make an IPython `DisplayFormatter` show patterns as pictures.

    IPython gets the names of the classes instead of the classes, so that torch is imported only when needed.
    """
    pictures = display.formatters["image/png"]
    pictures.for_type_by_name("regard.attention.pattern", "Pattern", picture_of)
    pictures.for_type_by_name("regard.attention.attend", "Attended", lambda attended: picture_of(attended.pattern))


def picture_of(pattern: "Pattern") -> bytes | None:
    """Return a pattern's weights as a PNG picture; None (IPython then shows text) if there are more than MAX_DRAWN."""
    if pattern.shape.numel() > MAX_DRAWN:
        return None
    from regard.views.picture.canvas import rendered
    from regard.views.picture.weights import weights_figure

    return rendered(weights_figure(pattern))
