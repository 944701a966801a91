"""A trace as one interactive web page, which needs no network and shows every attention weight of every head.

built/ has the script, the style sheet, and the web worker of `regard site`, bundled from front/ by `make front`.

The text that the model read may contain HTML, which could harm whoever opens the page. So the page contains the text
only as JSON in which no character can end the script element, and the script shows it only as text. The page's content
security policy allows nothing but one script and one style sheet, which the policy identifies by their hashes, and
images that are stored in the page. The pages of a server or a web site may load more (`live_page`, `site_page`).
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
from regard.tracing.tokens.token_reference import TokenReference
from regard.tracing.trace import Trace
from regard.views.output_file import check_writable, write_output
from regard.views.page.data import page_data
from regard.views.shared_text import single_line

TITLE_LENGTH = 60
"""The largest number of characters of the title of a page."""


def write_page(
    trace: Trace,
    path: Path,
    token: TokenReference | None = None,
    head: str | None = None,
    alignment: dict[str, Any] | None = None,
) -> Path:
    """Write a trace as one web page and return the path.

    Args:
        token: the query token that the page shows first, by position or text; None = chosen by `focus_on`.
        head: the name of the head that the page shows first, such as "L3H1"; None = chosen by `focus_on`.
        alignment: the word alignments of a translation, from `Translation.page_record`; None = the trace is not of a
            translation.
    """
    check_writable(path)
    return write_output(path, page(trace, focus_on(trace, token=token, head=head), alignment))


def page(trace: Trace, focus: Focus, alignment: dict[str, Any] | None = None) -> str:
    """Return the HTML of a trace's page, which first shows the query and the head in `focus`."""
    return document(page_data(trace, focus, alignment), trace.text)


def live_page(data: dict[str, Any]) -> str:
    """Return the HTML page of `regard explore`, which may ask its server for the attention weights of other texts.

    `data`, from `page_data` or `map_data`, is what the page shows first.
    """
    return document(data, data["text"], sources="connect-src 'self'")


def site_page(data: dict[str, Any], site: dict[str, Any]) -> str:
    """Return the HTML page of a static web site. Its web worker runs a model from the folder of the page.

    Args:
        data: the first trace that the page shows, from `page_data`.
        site: the settings of the worker, as `Site` in front/src/site/messages.ts describes them.
    """
    # The page makes its worker from a text (blob:), because such a worker has the page's content security policy.
    sources = "connect-src 'self'; worker-src blob:"
    return document(data, data["text"], sources, scripts="'wasm-unsafe-eval'", site=site)


def document(
    data: dict[str, Any], text: str, sources: str = "", scripts: str = "", site: dict[str, Any] | None = None
) -> str:
    """Return the HTML document of a page.

    Args:
        data: what the page shows, such as a trace, as `page_data` returns it.
        text: the title of the page, which is cut off if it is long; usually the text that the model read.
        sources: what the page may load, as directives of a content security policy, such as "connect-src 'self'";
            empty = nothing.
        scripts: further scripts that may run, as values of the directive script-src; empty = only the page's script.
        site: the settings of the web worker that runs the model (see `site_page`); None = the page has no worker.
    """
    style, script = read_source("built/page.css"), read_source("built/page.js")
    images = "img-src data:"  # allows images that are stored in the page
    loadable = f"{images}; {sources}" if sources else images
    runnable = f"script-src {' '.join(filter(None, (digest(script), scripts)))}; style-src {digest(style)}"
    return Template(read_source("page.html")).substitute(
        policy=f"default-src 'none'; {loadable}; {runnable}; base-uri 'none'; form-action 'none'",
        title=html.escape(page_title(text)),
        style=style,
        trace=safe_json(data),
        site="" if site is None else f'<script type="application/json" id="site">{safe_json(site)}</script>\n',
        script=script,
    )


def read_source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return the SHA-256 hash of an inline script or style sheet, in the notation of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_title(text: str) -> str:
    """Return the title of a page until its script has run, which then sets the title in the reader's language."""
    text = single_line(text)
    short = text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1] + "…"
    return f"{short} · regard" if short else "regard"


def safe_json(value: Any) -> str:
    """Return a value as JSON without <, > and &, so that it can neither begin nor end an HTML element.

    The line separators U+2028 and U+2029 are escaped, too, since JavaScript before 2019 takes them for line ends.

    >>> safe_json({"text": "</script>"})
    '{"text":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
