"""The page of a trace as a Jupyter widget: Python reads and sets which head and which token the page shows.

The page runs in a sandboxed frame. Whenever the reader chooses another head or token, the page posts its URL fragment
(such as #head=L3H1&query=7) to the notebook. The page shows the head and token of any fragment that the notebook posts.
A widget that is displayed twice shows the same head and token in both frames; each frame has its own other settings.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

import anywidget
import traitlets

from regard.tracing.focus import Focus, focus_on
from regard.tracing.head import Head
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.token_reference import TokenReference
from regard.tracing.trace import Trace
from regard.views.page import page
from regard.views.page.notebook import check_size
from regard.views.picture.canvas import rendered
from regard.views.picture.trace import figure

SCRIPT = """
const PAUSE_MILLISECONDS = 100; // Python hears what the page shows once the pointer rests

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "regard";
  frame.sandbox = "allow-scripts";
  frame.style.cssText = "width: 100%; height: 860px; border: 0; background: white";
  frame.srcdoc = model.get("document");
  let known = model.get("address"); // what the frame shows
  let timer;
  const hear = ({ source, data }) => {
    if (source !== frame.contentWindow || typeof data?.regard !== "string") return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      known = data.regard;
      model.set("address", known);
      model.save_changes();
    }, PAUSE_MILLISECONDS);
  };
  const tell = () => {
    const address = model.get("address");
    if (address === known) return;
    known = address;
    frame.contentWindow.postMessage({ regard: address }, "*");
  };
  addEventListener("message", hear);
  frame.addEventListener("load", () => frame.contentWindow.postMessage({ regard: model.get("address") }, "*"));
  model.on("change:address", tell);
  el.append(frame);
  return () => {
    clearTimeout(timer);
    removeEventListener("message", hear);
    model.off("change:address", tell);
  };
}

export default { render };
"""
"""The JavaScript of the widget: a frame with the page, and messages between this frame and Python."""


class TraceWidget(anywidget.AnyWidget):
    """The page of a trace in a notebook. `head` and `token` are the head and the query token that the page shows.

    Where widgets cannot be shown (GitHub, a notebook that is not trusted), the notebook shows a picture instead.
    """

    _esm = SCRIPT
    document = traitlets.Unicode(help="the HTML document of the page").tag(sync=True)
    address = traitlets.Unicode(help="what the page shows, in the form of a link to it").tag(sync=True)

    def __init__(self, trace: Trace, token: TokenReference | None = None, head: str | None = None) -> None:
        """Make the widget; the page first shows `token` and `head`, as in `Trace.html`.

        Raises:
            InputError: the token or head does not exist, or the trace has more weights than a notebook shows.
        """
        check_size(trace)
        self.trace = trace
        focus = focus_on(trace, token=token, head=head)
        super().__init__(document=page(trace, focus), address=urlencode(choice_of(trace, focus)))

    @property
    def head(self) -> Head:
        """The head that the page shows; an average over the heads of a layer if the reader has chosen the average."""
        shown = parse_qs(self.address)
        (kind,) = shown.get("kind", self.trace.kinds[-1:])
        return self.trace[f"{kind} {shown['head'][0]}"]

    @property
    def token(self) -> Token | None:
        """The query token that the page shows; None if the page shows the weights of every token."""
        return None if self._query is None else self.head.queries[self._query]

    def select(self, head: str | None = None, token: TokenReference | None = None) -> None:
        """Show another head or token on the page; None = the one that is shown now.

        Raises:
            InputError: the token or head does not exist.
        """
        focus = self._focus(self._query if token is None else token, head)
        self.address = urlencode(choice_of(self.trace, focus) | {"locked": 1})

    def on_select(self, function: Callable[["TraceWidget"], object]) -> None:
        """Call function(widget) whenever the page shows another head or token."""
        self.observe(lambda change: function(self), "address")

    @property
    def _query(self) -> int | None:
        (query,) = parse_qs(self.address)["query"]
        return None if query == "all" else int(query)

    def _focus(self, token: TokenReference | None, head: str | None = None) -> Focus:
        """Return a query token (None = chosen by `focus_on`) in a head (None = the head shown now)."""
        return focus_on(self.trace, token, head or f"{self.head.kind} {self.head.name}")

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget for a notebook, and a picture of what it shows for programs that cannot show widgets."""
        shown = super()._repr_mimebundle_(**options)
        assert shown is not None  # a widget with a script has a view
        data, metadata = shown
        picture = rendered(figure(self.trace, self._focus(self._query)))
        return data | {"text/plain": repr(self.trace), "image/png": picture}, metadata


def choice_of(trace: Trace, focus: Focus) -> dict[str, Any]:
    """Return the head and token in `focus` as parts of the page's URL fragment: {"head": "L3H1", "query": 7}."""
    kind = {"kind": focus.head.kind} if len(trace.kinds) > 1 else {}
    return kind | {"head": focus.head.name, "query": focus.query}
