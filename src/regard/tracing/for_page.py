"""A trace that has what a page shows: the hidden vectors too, where they can be kept."""

from typing import Any

from regard.tracing.layer_states import StatesNotFoundError
from regard.tracing.run import trace
from regard.tracing.trace import Trace

MOST_LETTERS = 2_500
"""The most letters of a text whose hidden vectors are kept: MiniLM reads about as many in its 512 tokens."""


def trace_for_page(model: Any, text: str | None, **options: Any) -> Trace:
    """Return the trace of a text with the hidden vectors, or without them.

    They are left out if the text is longer than `MOST_LETTERS`, since they take much memory in a large model, or if the
    parts of the model's layers are not found.

    Args:
        model: as in `regard.trace`.
        options: the other arguments of `regard.trace`.

    Raises:
        InputError: as in `regard.trace`.
    """
    if len(text or "") > MOST_LETTERS:
        return trace(model, text, **options)
    try:
        return trace(model, text, **options, keep=("hidden",))
    except StatesNotFoundError:
        return trace(model, text, **options)
