"""The differences between two traces of one text as a picture: a grid of layers × heads.

The difference at a query is the share of its attention, from 0 to 1, that is on other keys in the second trace than in
the first. The cell of a head shows the largest difference of all queries.
"""

from itertools import product
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.tracing.comparison import Comparison
from regard.tracing.patterns_by_layer import head_name
from regard.views.picture.canvas import INK, check_picture_path, outline, save_figure
from regard.views.picture.every_head import every_head_figure
from regard.views.picture.fonts import quoted
from regard.views.picture.head_grid import N_LISTED


def write_figure(comparison: Comparison, path: Path) -> Path:
    check_picture_path(path)
    return save_figure(comparison_figure(comparison), path)


def comparison_figure(comparison: Comparison) -> Figure:
    """Return a figure of how far each head differs between two traces, with a frame around the first difference."""
    first_head = None if comparison.first is None else comparison.first[0]
    largest = comparison.largest(N_LISTED)
    rows = [(head, query, share, head == first_head) for head, query, share in largest if share > 0]
    listed = "heads that differ most, and the query", rows
    label = "share of a query's attention"
    figure, axes = every_head_figure(comparison.heads, comparison.layers, title(comparison), listed, label)
    n_layers, n_heads = comparison.heads.shape
    for row, head in product(range(n_layers), range(n_heads)):
        if head_name(comparison.layers, row, head) == first_head:
            axes.add_patch(Rectangle((head, row), 1, 1, **outline(INK, 1.6), gid="first-head"))
    return figure


def title(comparison: Comparison) -> list[str]:
    models = " and ".join(quoted(model) for model in comparison.models)
    lines = [f"{models}. Each cell: the largest share of a query's attention that moves to other keys."]
    if bool(comparison.heads.isnan().any()):
        lines[0] += " Grey: no such head."
    if comparison.first is None:
        lines.append(f"No difference: no share is above {comparison.at_most:g}.")
    else:
        head, query = comparison.first
        lines.append(f"The first difference is in {head}, for the query {quoted(query)}.")
    if comparison.output is not None:
        lines[-1] += f" The outputs differ by at most {comparison.output:.3g}."
    return lines
