"""A note on what a query is in the decoder of an encoder-decoder model."""

from regard.tracing.trace import Trace

DECODER_NOTE = "A query is a token just read; its weights help to predict the token after it."
"""The note beside the weights of an encoder-decoder model's decoder. A picture of a word alignment does not need the
note, because its rows are the predicted tokens."""


def decoder_note(trace: Trace, kind: str) -> str:
    """Return a note if `kind` is the attention of an encoder-decoder model's decoder, else an empty text."""
    return DECODER_NOTE if kind != "encoder" and trace.source else ""
