"""Makes the trace that an HTML page shows, with the vectors of all tokens in each layer if they can be recorded."""

from collections.abc import Sequence
from typing import Any

from regard.tracing.run import trace
from regard.tracing.trace import Trace
from regard.tracing.watching.layer_states import StatesNotFoundError

MOST_LETTERS = 2_500
"""The vectors of tokens are recorded for texts of up to this many letters, which MiniLM reads as about 512 tokens."""


def trace_for_page(model: Any, text: str | Sequence[int] | None, **options: Any) -> Trace:
    """Return the trace of a text or of token ids, with the vectors of all tokens in each layer where they are found.

    To save memory, the vectors are left out if the text has over `MOST_LETTERS` letters (or ids); also if a part of a
    layer is not found. `options` are further arguments of `regard.trace`, such as `images`.

    Raises:
        InputError: there is no such model, or it cannot read the text, or its attention cannot be recorded.
    """
    if len(text or "") > MOST_LETTERS:
        return trace(model, text, **options)
    try:
        return trace(model, text, **options, keep=("hidden",))
    except StatesNotFoundError:
        return trace(model, text, **options)
