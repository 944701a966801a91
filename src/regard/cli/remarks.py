"""Print remarks on the error stream, which all verbs that show a text share.

There are two remarks: a model does not know most tokens of a text, or a letter in a picture has no font.
"""

import sys
from typing import TYPE_CHECKING

from regard.visible_text import escape_controls

if TYPE_CHECKING:
    from regard.tracing.trace import Trace


def print_remark(remark: str) -> None:
    """Print a remark on the error stream, unless it is empty."""
    if remark:
        print(f"regard: {escape_controls(remark)}", file=sys.stderr)


def remark_on_texts(*traces: "Trace") -> None:
    """Print a remark for each model that reads most of its text as unknown words, single jamo or bytes."""
    from regard.tracing.readable_tokens import unfamiliar_text_note

    for remark in dict.fromkeys(unfamiliar_text_note(seen.model, seen.tokens) for seen in traces):
        print_remark(remark)


def remark_on_fonts(text: str) -> None:
    """Print a remark if letters of a picture's text have no font on this machine: the letters and a font to install."""
    from regard.views.picture.fonts import fonts_for

    print_remark(fonts_for(text).advice)


def letters_of(*traces: "Trace") -> str:
    """Return all letters that a picture of the traces shows: the models' names and the tokens."""
    return "".join(seen.model + "".join(token.text for token in (*seen.source, *seen.target)) for seen in traces)
