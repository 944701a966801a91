"""A trace as one interactive web page that needs no network and contains every weight of every head.

page.html      the elements of the page
page.css       the style sheet, light and dark
script/        the script: drawing and interaction
weights.py     the weights as compact text
notebook.py    the page in a frame, for a notebook

The text that the model read may contain markup, and the page may be opened by someone else. So the text is put into the
page only as JSON in which no character can end the script element, the script shows it only as text, and the page's
content security policy forbids everything but one script and one style sheet, named by their hashes.
"""

import base64
import hashlib
import html
import json
from importlib.resources import files
from pathlib import Path
from string import Template, whitespace
from typing import Any

from regard.tracing.focus import Focus, focus_on
from regard.tracing.readable_tokens import Token
from regard.tracing.token_reference import TokenReference
from regard.tracing.trace import Trace
from regard.views.output_file import check_writable, write_output
from regard.views.page.weights import SMALL_BELOW, UNITS, Embedded, embed
from regard.views.shared_text import decoder_note, single_line
from regard.visible_text import escape_controls

TITLE_LENGTH = 60
"""The most characters of the text in the page's title."""

SCRIPTS = ("trace", "weights", "colours", "tokens", "strongest", "map", "grid", "labels", "draw", "actions", "start")
"""The files of the page's script, in the order in which they are joined."""


def write_page(trace: Trace, path: Path, token: TokenReference | None = None, head: str | None = None) -> Path:
    """Write a trace as one web page and return the path; `focus_on` chooses the token and head that are not given.

    Raises:
        InputError: the token or head does not exist, the trace has more weights than a page takes, or the file cannot
            be written.
    """
    check_writable(path)
    return write_output(path, page(trace, focus_on(trace, token=token, head=head)))


def page(trace: Trace, focus: Focus) -> str:
    """Return a trace as one self-contained HTML document that first shows the token and head in `focus`."""
    embedded = embed(trace)
    style = read_source("page.css")
    script = "\n".join(read_source(f"script/{part}.js") for part in SCRIPTS)
    return Template(read_source("page.html")).substitute(
        policy=content_security_policy(script, style),
        title=html.escape(page_title(trace)),
        style=style,
        trace=safe_json(trace_json(trace, focus, embedded)),
        blocks="\n".join(data_block(name, text) for name, text in embedded.blocks.items()),
        script=script,
    )


def read_source(name: str) -> str:
    """Return the text of a source file of the page, given by its path below this folder."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def content_security_policy(script: str, style: str) -> str:
    """Return the policy by which the browser loads and runs nothing but this script and this style sheet."""
    allowed = f"script-src {digest(script)}; style-src {digest(style)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def digest(text: str) -> str:
    """Return the SHA-256 of an inline script or style in the notation of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_title(trace: Trace) -> str:
    text = single_line(trace.text)
    return f"{text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1] + '…'} · regard"


def trace_json(trace: Trace, focus: Focus, embedded: Embedded) -> dict[str, Any]:
    """Return the data that the page's script reads, without the blocks of weights."""
    return {
        "model": escape_controls(trace.model),
        "text": escape_controls(trace.text, keep=whitespace),
        "target_text": escape_controls(trace.target_text, keep=whitespace),
        "source": [token_json(token) for token in trace.source],
        "target": [token_json(token) for token in trace.target],
        "kinds": {
            kind: {
                "queries": "source" if kind == "encoder" else "target",
                "keys": "target" if kind == "decoder" else "source",
                "note": decoder_note(trace, kind),
                "layers": layers,
            }
            for kind, layers in embedded.layers.items()
        },
        "units": UNITS,
        "small": {"below": SMALL_BELOW, "step": embedded.small_step},
        "focus": {"kind": focus.head.kind, "layer": focus.head.layer, "head": focus.head.head, "query": focus.query},
    }


def token_json(token: Token) -> dict[str, Any]:
    """Return a token for the page's script, with `piece` only if it differs from the text, `special` only if True."""
    fields: dict[str, Any] = {"text": escape_controls(token.text)}
    if token.piece != token.text:
        fields["piece"] = escape_controls(token.piece)
    if token.special:
        fields["special"] = True
    return fields


def safe_json(value: Any) -> str:
    """Return a value as JSON that can neither begin nor end an HTML element.

    >>> safe_json({"text": "</script>"})
    '{"text":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def data_block(name: str, text: str) -> str:
    """Return a script element with data that the page's script can read and the browser does not run."""
    return f'<script type="text/plain" id="{name}">{text}</script>'
