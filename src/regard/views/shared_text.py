"""The words that all views share: the name of a token, the size of a model, the note on a decoder's rows."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.errors import counted

if TYPE_CHECKING:
    from regard.tracing.head import Head
    from regard.tracing.readable_tokens import Token
    from regard.tracing.trace import Trace

CONTROL_SYMBOLS = {code: f"‹{code:02X}›" for code in (*range(0x20), *range(0x7F, 0xA0))} | {0x09: "⇥", 0x0A: "⏎"}
"""The symbol shown for each control character: its code in ‹›, or ⇥ and ⏎ for tab and line feed."""

DECODER_NOTE = "The piece that looks has just been read; what it looks at writes the next."
"""Explains why a decoder's rows are one before the rows of an alignment, which shows pieces as they are written."""


def escape_controls(text: str) -> str:
    r"""Replace control characters by visible symbols, so that they do nothing to a terminal.

    >>> escape_controls("\x1b[31mred"), escape_controls("a\tb")
    ('‹1B›[31mred', 'a⇥b')
    """
    return text.translate(CONTROL_SYMBOLS)


def single_line(text: str) -> str:
    """Replace each run of white space by one space, and control characters by symbols."""
    return escape_controls(" ".join(text.split()))


def token_label(position: int, tokens: "Sequence[Token]") -> str:
    """Return the text of a token, followed by its number ("it:2") if several tokens have this text."""
    text = tokens[position].text
    same = [place for place, token in enumerate(tokens) if token.text == text]
    return escape_controls(text if len(same) == 1 else f"{text}:{same.index(position) + 1}")


def size_label(heads: "Sequence[Head]") -> str:
    """Return the number of layers and of heads in each: "6 layers × 12 heads"."""
    each = Counter(head.layer for head in heads)
    fewest, most = min(each.values()), max(each.values())
    layers = counted(len(each), "layer")
    return f"{layers} × {counted(most, 'head')}" if fewest == most else f"{layers} of {fewest} to {most} heads"


def decoder_note(trace: "Trace", kind: str) -> str:
    """Return the note on the rows of an encoder-decoder's decoder; empty for its encoder and for other models."""
    return DECODER_NOTE if kind != "encoder" and trace.source else ""
