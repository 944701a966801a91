"""Remarks on the error stream: a text that a model hardly knows, letters for which there is no font.

Every verb that shows a text makes them with these functions.
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
    """Say which models know less than half of the tokens of the text that they read."""
    from regard.tracing.readable_tokens import unfamiliar_text_note

    for remark in dict.fromkeys(unfamiliar_text_note(seen.model, seen.tokens) for seen in traces):
        print_remark(remark)


def remark_on_fonts(text: str) -> None:
    """Say which letters of the text in a picture have no font on this machine, and which font to install."""
    from regard.views.picture.fonts import fonts_for

    print_remark(fonts_for(text).advice)


def letters_of(*traces: "Trace") -> str:
    """Return all letters that a picture of the traces shows: the models' names and the tokens."""
    return "".join(seen.model + "".join(token.text for token in (*seen.source, *seen.target)) for seen in traces)
