"""Texts that several views show: a token's label, a model's size, a caution on attention."""

from collections import Counter
from collections.abc import Sequence

from regard.errors import counted
from regard.tracing.head import Head
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.token_reference import reference_of
from regard.visible_text import escape_controls

CAUTION = "Attention shows where a head reads; by itself it does not explain the answer."
"""`caution` in front/src/words.ts is the same sentence."""


def single_line(text: str) -> str:
    return escape_controls(" ".join(text.split()))


def token_label(position: int, tokens: Sequence[Token]) -> str:
    """Return the text of a token; if several tokens have this text, with a number, such as "it:2"."""
    return escape_controls(reference_of(position, tokens))


def size_label(heads: Sequence[Head]) -> str:
    n_heads = Counter(head.layer for head in heads)
    fewest, most = min(n_heads.values()), max(n_heads.values())
    layers = counted(len(n_heads), "layer")
    return f"{layers} × {counted(most, 'head')}" if fewest == most else f"{layers} of {fewest} to {most} heads"
