"""The trace that an HTML page shows, with the vectors of all tokens in each layer if they can be recorded."""

from collections.abc import Sequence
from typing import Any

from regard.tracing.run import trace
from regard.tracing.trace import Trace
from regard.tracing.watching.layer_states import StatesNotFoundError

MOST_CHARACTERS = 2_500
"""The vectors of the tokens are recorded if a text has at most this many characters: about 512 tokens of MiniLM."""


def trace_for_page(model: Any, text: str | Sequence[int] | None, **options: Any) -> Trace:
    """Return the trace of a text or token ids (None = of pictures alone), with the vectors of all tokens if possible.

    The vectors are left out if there are over `MOST_CHARACTERS` characters or ids, to save memory. They are also left
    out if regard does not find the parts of the model's layers. `options` are further arguments of `regard.trace`.
    """
    if len(text or "") > MOST_CHARACTERS:
        return trace(model, text, **options)
    try:
        return trace(model, text, **options, keep=("hidden",))
    except StatesNotFoundError:
        return trace(model, text, **options)
