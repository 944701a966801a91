"""What every view says in the same words: a token's name, how large a model is, how its target's side is read."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.errors import counted

if TYPE_CHECKING:
    from regard.tracing.head import Head
    from regard.tracing.tokens import Token
    from regard.tracing.trace import Trace

SIGNS = {code: f"‹{code:02X}›" for code in (*range(0x20), *range(0x7F, 0xA0))} | {0x09: "⇥", 0x0A: "⏎"}
"""What stands for each control character: its number, as for the bytes of a letter; a sign for tab and new line."""

AS_READ = "The piece that looks has just been read; what it looks at writes the next."
"""Why the target's rows stand one before those of an alignment, which shows pieces as they are written."""


def visible(text: str) -> str:
    r"""A text whose control characters are seen, and do nothing to the terminal.

    >>> visible("\x1b[31mred"), visible("a\tb")
    ('‹1B›[31mred', 'a⇥b')
    """
    return text.translate(SIGNS)


def in_one_line(text: str) -> str:
    """A text, its spaces and breaks of lines all single spaces."""
    return visible(" ".join(text.split()))


def called(position: int, tokens: "Sequence[Token]") -> str:
    """What a token is asked for by: its text, with its number where there are several of the kind ("it:2")."""
    text = tokens[position].text
    same = [place for place, token in enumerate(tokens) if token.text == text]
    return visible(text if len(same) == 1 else f"{text}:{same.index(position) + 1}")


def sizes(heads: "Sequence[Head]") -> str:
    """How many layers heads make up, and how many there are in each."""
    each = Counter(head.layer for head in heads)
    fewest, most = min(each.values()), max(each.values())
    layers = counted(len(each), "layer")
    return f"{layers} × {counted(most, 'head')}" if fewest == most else f"{layers} of {fewest} to {most} heads"


def reading(trace: "Trace", kind: str) -> str:
    """How to read the rows of a kind of attention; empty but for the target's side of an encoder-decoder."""
    return AS_READ if kind != "encoder" and trace.source else ""
