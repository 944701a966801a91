"""The trace that an HTML page shows, with the vectors of all tokens in each layer if they can be recorded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.tracing.model_loading import load_media_model
from regard.tracing.run import loaded_for_text, trace
from regard.tracing.trace import Trace
from regard.tracing.watching.layer_states import StatesNotFoundError

MOST_CHARACTERS = 2_500
"""The vectors of the tokens are recorded if a text has at most this many characters: about 512 tokens of MiniLM."""


def trace_for_page(model: Any, text: str | Sequence[int] | None, **options: Any) -> Trace:
    """Return the trace of a text or token ids (None = of pictures alone), with the vectors of all tokens if possible.

    The vectors are left out if there are over `MOST_CHARACTERS` characters or ids, to save memory. They are also left
    out if regard does not find the parts of the model's layers. `options` are further arguments of `regard.trace`.
    """
    if isinstance(model, str | Path):  # loaded once, also if its states are not found
        generates = any(options.get(name) is not None for name in ("new_tokens", "generation"))
        if any(options.get(name) is not None for name in ("images", "video", "audio")):
            model = load_media_model(str(model), generates)
        else:
            loaded = loaded_for_text(model, text, options.get("target"), options.get("tokenizer"), generates)
            model, options["tokenizer"] = loaded.model, loaded.tokenizer
    if len(text or "") > MOST_CHARACTERS:
        return trace(model, text, **options)
    try:
        return trace(model, text, **options, keep=("hidden",))
    except StatesNotFoundError:
        return trace(model, text, **options)
