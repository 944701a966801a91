"""The page of a trace as a Jupyter widget: Python reads and sets which head and which query token the page shows.

The page runs in a sandboxed HTML frame. Frame and notebook exchange messages with a URL fragment, such as
#head=L3H1&query=7. The page sends a message when its reader chooses another head or token. When the notebook sends a
message, the page shows the head and token of this message. If a widget is displayed twice, both frames show the same
head and token; all other settings of a page belong to its frame alone.
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
const PAUSE_MILLISECONDS = 100; // Python is told what the page shows after this time without a change

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "regard";
  frame.sandbox = "allow-scripts";
  frame.style.cssText = "width: 100%; height: 860px; border: 0; background: white";
  frame.srcdoc = model.get("document");
  let frameAddress = model.get("address"); // the head and token that the frame shows, as a URL fragment
  let timer;
  const receive = ({ source, data }) => {
    if (source !== frame.contentWindow || typeof data?.regard !== "string") return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      frameAddress = data.regard;
      model.set("address", frameAddress);
      model.save_changes();
    }, PAUSE_MILLISECONDS);
  };
  const send = () => {
    const address = model.get("address");
    if (address === frameAddress) return;
    frameAddress = address;
    frame.contentWindow.postMessage({ regard: address }, "*");
  };
  addEventListener("message", receive);
  frame.addEventListener("load", () => frame.contentWindow.postMessage({ regard: model.get("address") }, "*"));
  model.on("change:address", send);
  el.append(frame);
  return () => {
    clearTimeout(timer);
    removeEventListener("message", receive);
    model.off("change:address", send);
  };
}

export default { render };
"""
"""Makes an HTML frame with the page, and passes messages between the frame and Python."""


class TraceWidget(anywidget.AnyWidget):
    """The page of a trace in a notebook. `head` and `token` are the head and the query token that the page shows.

    If widgets cannot be shown, as on GitHub or in a notebook that is not trusted, a picture is shown instead.
    """

    _esm = SCRIPT
    document = traitlets.Unicode(help="the HTML document of the page").tag(sync=True)
    address = traitlets.Unicode(help="what the page shows, in the form of a link to it").tag(sync=True)

    def __init__(self, trace: Trace, token: TokenReference | None = None, head: str | None = None) -> None:
        """Make the widget of a trace.

        Args:
            token: the query token that the page shows first, by position or text; None = chosen by `focus_on`.
            head: the name of the head that the page shows first, such as "L3H1"; None = chosen by `focus_on`.

        Raises:
            InputError: the token or head does not exist, or the trace has more weights than a notebook shows.
        """
        check_size(trace)
        self.trace = trace
        focus = focus_on(trace, token=token, head=head)
        super().__init__(document=page(trace, focus), address=urlencode(choice_of(trace, focus)))

    @property
    def head(self) -> Head:
        """The head that the page shows; the mean over all heads of a layer if the reader has chosen the average."""
        parameters = parse_qs(self.address)
        # The address has no kind if the trace has only one.
        kind = parameters["kind"][0] if "kind" in parameters else self.trace.kinds[-1]
        (name,) = parameters["head"]
        return self.trace[f"{kind} {name}"]

    @property
    def token(self) -> Token | None:
        """The query token whose weights the page shows; None if the page shows the weights of all query tokens."""
        return None if self._query is None else self.head.queries[self._query]

    def select(self, head: str | None = None, token: TokenReference | None = None) -> None:
        """Show another head or query token on the page.

        Args:
            head: the name of a head, such as "L3H1"; None = the head that the page shows now.
            token: the position or text of a query token; None = the token that the page shows now, or, if it shows all
                tokens, one chosen by `focus_on`.

        Raises:
            InputError: the token or head does not exist.
        """
        focus = self._focus(self._query if token is None else token, head)
        keep_token = {"locked": 1}  # the page keeps the token when the pointer moves over others
        self.address = urlencode(choice_of(self.trace, focus) | keep_token)

    def on_select(self, function: Callable[["TraceWidget"], object]) -> None:
        """Call `function(widget)` every time the head or the token that the page shows changes."""
        self.observe(lambda change: function(self), "address")

    @property
    def _query(self) -> int | None:
        (query,) = parse_qs(self.address)["query"]
        return None if query == "all" else int(query)

    def _focus(self, token: TokenReference | None, head: str | None = None) -> Focus:
        return focus_on(self.trace, token, head or f"{self.head.kind} {self.head.name}")

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget, with a picture of its head and token for programs that cannot show widgets."""
        bundle = super()._repr_mimebundle_(**options)
        assert bundle is not None  # anywidget may return None, but not for a widget with a script
        data, metadata = bundle
        picture = rendered(figure(self.trace, self._focus(self._query)))
        return data | {"text/plain": repr(self.trace), "image/png": picture}, metadata


def choice_of(trace: Trace, focus: Focus) -> dict[str, Any]:
    """Return the head and token in `focus` as parameters of the page's URL fragment: {"head": "L3H1", "query": 7}."""
    kind = {"kind": focus.head.kind} if len(trace.kinds) > 1 else {}
    return kind | {"head": focus.head.name, "query": focus.query}
