"""Text that several views show: the name of a token, the size of a model, how to read a decoder's weights."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.errors import counted
from regard.tracing.tokens.token_reference import reference_of
from regard.visible_text import escape_controls

if TYPE_CHECKING:
    from regard.tracing.head import Head
    from regard.tracing.tokens.readable_tokens import Token
    from regard.tracing.trace import Trace

DECODER_NOTE = "A query is the token just read; its weights help to predict the next token."
"""The note beside a decoder's weights: the weights of a query help to predict the token after the query.

An alignment needs no note: its rows are the predicted tokens.
"""

CAUTION = "Attention shows where a head reads; by itself it does not explain the answer."
"""The caution beside pictures of attention; `caution` in front/src/words.ts is the same sentence."""


def single_line(text: str) -> str:
    """Replace each run of white space by one space, and other control characters by visible symbols."""
    return escape_controls(" ".join(text.split()))


def token_label(position: int, tokens: "Sequence[Token]") -> str:
    """Return the text of the token at a position, with a number if several tokens have this text: "it:2"."""
    return escape_controls(reference_of(position, tokens))


def size_label(heads: "Sequence[Head]") -> str:
    """Return the number of layers, and of heads in each layer: "6 layers × 12 heads"."""
    n_heads = Counter(head.layer for head in heads)
    fewest, most = min(n_heads.values()), max(n_heads.values())
    layers = counted(len(n_heads), "layer")
    return f"{layers} × {counted(most, 'head')}" if fewest == most else f"{layers} of {fewest} to {most} heads"


def decoder_note(trace: "Trace", kind: str) -> str:
    """Return DECODER_NOTE for attention in the decoder of an encoder-decoder model; an empty text otherwise.

    `kind` is the kind of attention: "encoder", "decoder" or "cross".
    """
    return DECODER_NOTE if kind != "encoder" and trace.source else ""
