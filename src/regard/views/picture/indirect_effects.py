"""Draw the indirect effects of heads as a grid of layers × heads.

The cell of a head shows how much of the difference between a clean and a corrupted run its output restores.
"""

from pathlib import Path

from matplotlib.figure import Figure

from regard.tracing.indirect_effects import IndirectEffects
from regard.views.picture.canvas import MARGIN, WIDTH, blank_page, check_picture_path, save_figure
from regard.views.picture.comparison import LARGEST_CELL, LIST_WIDTH, TALLEST_GRID
from regard.views.picture.fonts import fonts_for, quoted
from regard.views.picture.head_grid import LINE_HEIGHT, N_LISTED, NUMBERS_WIDTH, draw_grid, draw_list, draw_scale


def write_figure(effects: IndirectEffects, path: Path) -> Path:
    """Draw the effects into a file whose name ends in .png, .svg or .pdf, and return the path."""
    check_picture_path(path)
    return save_figure(effects_figure(effects), path)


def effects_figure(effects: IndirectEffects) -> Figure:
    """Return the figure of the effects: a title, the grid of layers × heads, a list of heads and the colour scale."""
    n_layers, n_heads = effects.heads.shape
    side = min(LARGEST_CELL, (WIDTH - 2 * MARGIN - NUMBERS_WIDTH - LIST_WIDTH) / n_heads, TALLEST_GRID / n_layers)
    texts = title(effects)
    fonts = fonts_for("".join(texts))
    lines = [line for text in texts for line in fonts.lines(text, 8.5, WIDTH - 2 * MARGIN)]
    above = LINE_HEIGHT * len(lines) + 0.5
    listed = effects.largest(N_LISTED)
    page = blank_page(2 * MARGIN + above + max(side * n_layers + 0.5, LINE_HEIGHT * (1 + len(listed))), fonts)
    page.write_lines(page.area(MARGIN, MARGIN, WIDTH - 2 * MARGIN, above), lines, LINE_HEIGHT)
    left, top, largest = MARGIN + NUMBERS_WIDTH, MARGIN + above, effects.heads.abs().nan_to_num(0.0).max().item() or 1.0
    layers = [layer for _, layer in effects.layers]
    draw_grid(page, left, top, effects.heads.numpy(), layers, side, "heads", largest, -largest)
    beside = left + side * n_heads + 0.5
    rows = [(head, "", effect, False) for head, effect in listed]
    draw_list(page, beside, top, WIDTH - MARGIN - beside, "largest effects", rows)
    draw_scale(page, left, top + side * n_layers + 0.16, "share of the difference that is restored", largest, -largest)
    return page.figure


def title(effects: IndirectEffects) -> list[str]:
    clean, corrupted = map(quoted, effects.texts)
    lines = [
        f"{quoted(effects.traces[1].model)} reads {corrupted}, each time with the output of one head from {clean}.",
        "Each cell: how much of the difference between the two runs that head restores. "
        f"The metric is {effects.clean:.3g} in the clean run and {effects.corrupted:.3g} in the corrupted run.",
    ]
    if len({kind for kind, _ in effects.layers}) > 1:
        lines.append("Rows, from the top: " + ", ".join(f"{kind} L{layer}" for kind, layer in effects.layers) + ".")
    return lines
