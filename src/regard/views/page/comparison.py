"""The web page of a comparison of two traces of one text: their attention patterns side by side, on one scale."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.tracing.comparison import Comparison
from regard.tracing.focus import Focus, focus_on
from regard.tracing.tokens.token_reference import TokenReference
from regard.tracing.trace import Trace
from regard.views.output_file import check_writable, write_output
from regard.views.page import document
from regard.views.page.data import Blocks, encode_layers, page_data, trace_record


def write_page(
    comparison: Comparison, path: Path, token: TokenReference | None = None, head: str | None = None
) -> Path:
    """Write the HTML of `comparison_page` into a file, and return the path."""
    check_writable(path)
    return write_output(path, comparison_page(comparison, token, head))


def comparison_page(comparison: Comparison, token: TokenReference | None = None, head: str | None = None) -> str:
    """Return the HTML of a web page that first shows a query token and a head, such as "L3H1".

    If both are None, the page first shows the token and the head where the traces first differ. If the traces differ
    nowhere, or if only one argument is None, `focus_on` chooses.
    """
    if token is None and head is None and comparison.first is not None:
        head, token = comparison.first
    first = comparison.traces[0]
    return document(comparison_data(comparison, focus_on(first, token=token, head=head)), first.text)


def comparison_data(comparison: Comparison, focus: Focus) -> dict[str, Any]:
    """Return the data of the first trace. Its entry "second" has the second trace, and how far each head differs.

    `SecondTrace` in front/src/trace/data.ts describes the entry "second".
    """
    differing = []
    n_heads = comparison.heads.numel()
    for row, head in comparison.largest_cells(n_heads):  # all heads, the most different first
        (kind, layer), total_variation = comparison.layers[row], float(comparison.heads[row, head])
        if total_variation > 0:  # not so for NaN, of a head that the layer does not have
            query = int(comparison.queries[row, head])
            differing.append({"kind": kind, "layer": layer, "head": head, "query": query, "moved": total_variation})
    data = data_of_two(*comparison.traces, focus, ("model", "kinds", "blocks"))
    data["second"] |= {"differing_heads": differing, "output": comparison.output}
    return data


def data_of_two(first: Trace, second: Trace, focus: Focus, fields: Sequence[str]) -> dict[str, Any]:
    """Return the JSON data of the first trace; its entry "second" has the given `fields` of the second trace.

    `focus` is the head and the query that the page shows first.
    """
    blocks: Blocks = {}
    layers, rounding_step = encode_layers(second, blocks, max_values=0)
    data, record = page_data(first, focus), trace_record(second, layers, blocks)
    # The page tells the rounding error of small weights, once for both traces: that of the coarser step.
    data["small"]["step"] = max(rounding_step, data["small"]["step"])
    return data | {"second": {name: record[name] for name in fields}}
