"""A trace as one web page that needs no network: every weight of every head, to be hovered over and read.

    page.html    what there is on the page
    page.css     how it looks, light and dark
    script/      how it is drawn and what it answers to
    weights.py   the weights, in few enough bytes

The text that the model read may contain markup, and the page may be opened by someone else. So it enters only as JSON
in which no letter can end the script, the script shows it only as text, and the page's policy lets the browser run and
use nothing but the one script and the one style whose hashes it names.
"""

import base64
import hashlib
import html
import json
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from regard.tracing.focus import Focus, focus_on
from regard.tracing.head import TokenReference
from regard.tracing.tokens import Token
from regard.tracing.trace import Trace
from regard.views.labels import SIGNS, in_one_line, reading, visible
from regard.views.output_file import writable, write_output
from regard.views.page.weights import SMALL_BELOW, UNITS, Embedded, embed

TITLE_LETTERS = 60

UNSEEN = {code: sign for code, sign in SIGNS.items() if not chr(code).isspace()}
"""What stands for control characters in a whole text, whose lines are broken where it breaks them."""

SCRIPTS = ("trace", "weights", "colours", "tokens", "strongest", "map", "grid", "labels", "draw", "actions", "start")
"""The parts of the page's one script, in order; the last one starts it."""


def write_page(trace: Trace, path: Path, token: TokenReference | None = None, head: str | None = None) -> Path:
    """Write a trace as one web page that opens on one token of one head (the most telling ones, unless given).

    Raises:
        InputError: a token or head that is not there, more weights than a page takes, a file that cannot be written.
    """
    writable(path)
    return write_output(path, page(trace, focus_on(trace, token=token, head=head)))


def page(trace: Trace, focus: Focus) -> str:
    """A trace as HTML with nothing outside it, opening on a focus."""
    embedded = embed(trace)
    style = source("page.css")
    script = "\n".join(source(f"script/{part}.js") for part in SCRIPTS)
    return Template(source("page.html")).substitute(
        policy=policy(script, style),
        title=html.escape(title(trace)),
        style=style,
        trace=safe_json(description(trace, focus, embedded)),
        blocks="\n".join(block(name, text) for name, text in embedded.blocks.items()),
        script=script,
    )


def source(name: str) -> str:
    """One of the page's own sources."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def policy(script: str, style: str) -> str:
    """What the browser may load and run: nothing but this script and this style."""
    own = f"script-src {digest(script)}; style-src {digest(style)}"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def digest(text: str) -> str:
    """The hash of an inline script or style, as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def title(trace: Trace) -> str:
    """The page's title: the text, or its beginning."""
    text = in_one_line(trace.text)
    return f"{text if len(text) <= TITLE_LETTERS else text[: TITLE_LETTERS - 1] + '…'} · regard"


def description(trace: Trace, focus: Focus, embedded: Embedded) -> dict[str, Any]:
    """All but the weights, as the script reads it."""
    return {
        "model": visible(trace.model),
        "text": trace.text.translate(UNSEEN),
        "target_text": trace.target_text.translate(UNSEEN),
        "source": [described(token) for token in trace.source],
        "target": [described(token) for token in trace.target],
        "kinds": {
            kind: {
                "queries": "source" if kind == "encoder" else "target",
                "keys": "target" if kind == "decoder" else "source",
                "reading": reading(trace, kind),
                "layers": layers,
            }
            for kind, layers in embedded.layers.items()
        },
        "units": UNITS,
        "small": {"below": SMALL_BELOW, "step": embedded.small_step},
        "focus": {"kind": focus.head.kind, "layer": focus.head.layer, "head": focus.head.head, "query": focus.query},
    }


def described(token: Token) -> dict[str, Any]:
    """A token, without what goes without saying."""
    kept: dict[str, Any] = {"text": visible(token.text)}
    if token.piece != token.text:
        kept["piece"] = visible(token.piece)
    if token.special:
        kept["special"] = True
    return kept


def safe_json(value: Any) -> str:
    """JSON that cannot end or open anything in the HTML around it, whatever the text in it.

    >>> safe_json({"text": "</script>"})
    '{"text":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def block(name: str, text: str) -> str:
    """A block of data that the browser keeps and never runs."""
    return f'<script type="text/plain" id="{name}">{text}</script>'
