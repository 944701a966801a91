"""How much each head attends to certain kinds of keys, such as the previous token, as a picture.

It has several grids of layers × heads: one for each kind of key to which some head attends, one for the mean distance
and one for the entropy.
"""

import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from regard.effects.roles import KEY_ROLES, ROLES
from regard.tracing.roles import Roles
from regard.views.picture.canvas import INNER_WIDTH, MARGIN, blank_page, check_picture_path, save_figure
from regard.views.picture.fonts import fonts_for
from regard.views.picture.head_grid import LINE_HEIGHT, NUMBERS_WIDTH, draw_grid, draw_scale

COLUMNS, GAP = 3, 0.35
"""The number of grids side by side, and the space between them in inches."""

ABOVE_GRID, BELOW_GRID = 0.58, 0.19
"""In inches: the space above a grid for its title and the numbers of heads, and below a grid."""

TITLES = {
    "previous": "previous token",
    "next": "next token",
    "same": "the token itself",
    "first": "first token",
    "separator": "special tokens (separator)",
    "duplicate": "same text elsewhere",
    "induction": "after an earlier copy",
    "distance": "mean distance in tokens",
    "entropy": "entropy in nats",
}
"""The title of each grid: the kind of key for which it shows the attention, or "mean distance", or "entropy"."""


def write_figure(roles: Roles, path: Path, title: str = "") -> Path:
    """Draw how much heads attend to each kind of key, below `title` (empty = no title); return the path."""
    check_picture_path(path)
    return save_figure(roles_figure(roles, title), path)


def roles_figure(roles: Roles, title: str) -> Figure:
    layer_and_head = [head.removeprefix("L").split("H") for head in roles.heads]  # names such as "L3H1"
    layers = list(dict.fromkeys(int(layer) for layer, _ in layer_and_head))
    n_heads = 1 + max(int(head) for _, head in layer_and_head)
    drawn_roles = [role for role in ROLES if roles.top(role, 1)]
    width = (INNER_WIDTH - GAP * (COLUMNS - 1)) / COLUMNS
    side = min(0.3, (width - NUMBERS_WIDTH) / n_heads)
    fonts = fonts_for(title)
    lines = fonts.lines(title, 8.5, INNER_WIDTH)
    height = ABOVE_GRID + side * len(layers) + BELOW_GRID
    n_rows = math.ceil(len(drawn_roles) / COLUMNS)
    top = MARGIN + LINE_HEIGHT * len(lines) + 0.15
    page = blank_page(top + height * n_rows + 0.5 + MARGIN, fonts)
    page.write_lines(page.area(MARGIN, MARGIN, INNER_WIDTH, top), lines, LINE_HEIGHT)
    for number, role in enumerate(drawn_roles):
        means = {head: float(mean) for head, mean in zip(roles.heads, roles[role], strict=True)}
        # NaN: the layer has fewer heads than others
        grid = np.array([[means.get(f"L{layer}H{head}", np.nan) for head in range(n_heads)] for layer in layers])
        row, column = divmod(number, COLUMNS)
        left, above = MARGIN + column * (width + GAP) + NUMBERS_WIDTH, top + row * height
        top_head, largest = roles.top(role, 1)[0]
        grid_title = f"{TITLES[role]}: {top_head} {largest:.2f}"
        page.write(page.area(left, above, width - NUMBERS_WIDTH, 0.2), 0.0, 0.12, grid_title, 8.5, bold=True)
        draw_grid(
            page, left, above + ABOVE_GRID, grid, layers, side, role, largest=1.0 if role in KEY_ROLES else largest
        )
    scale_label = "mean share of attention; distance and entropy: from 0 to the number above the grid"
    draw_scale(page, MARGIN + NUMBERS_WIDTH, top + height * n_rows + 0.1, scale_label)
    return page.figure
