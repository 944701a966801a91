"""A pattern as a small picture, in regard's own drawing: a circle for each weight, grey where the mask bars."""

import io

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from regard import Pattern
from regard.views.picture.canvas import BLUE, EDGE, FAINT, INK, MASKED, METADATA, RULE, Page, outline
from regard.views.picture.fonts import fonts_for
from regard.views.picture.pattern import draw_circles

CELL, GAP, LEFT, TOP = 0.21, 0.3, 0.2, 0.2
"""Inches: the side of a cell, between two heads, the room for what is written on the left and above."""

MOST = 4
"""Heads that are drawn side by side, at most."""

DARK = {INK: "#e9edf2", FAINT: "#a3adba", EDGE: "#566070", RULE: "#303642", MASKED: "#343b48", BLUE: "#7fb8f2"}
"""The colours of a picture that lies on a dark page."""


def pictures(pattern: Pattern) -> dict[str, str]:
    """A pattern as SVG for light pages and for dark ones."""
    light = drawn(pattern)
    dark = light
    for bright, colour in DARK.items():
        dark = dark.replace(bright, colour)
    return {"light": light, "dark": dark}


def drawn(pattern: Pattern) -> str:
    """The first heads, of every batch item, side by side."""
    batch, heads, rows, columns = pattern.shape
    panels = [(item, head) for item in range(batch) for head in range(heads)][:MOST]
    width, height = LEFT + len(panels) * (columns * CELL + GAP) - GAP + 0.02, TOP + rows * CELL + 0.02
    figure = Figure(figsize=(width, height), facecolor="none")
    FigureCanvasAgg(figure)
    page = Page(figure, fonts_for(""))
    for place, (item, head) in enumerate(panels):
        left = LEFT + place * (columns * CELL + GAP)
        name = f"item {item}" if heads == 1 and batch > 1 else f"head {head}" if len(panels) > 1 else ""
        panel(page, pattern, item, head, left, name)
    return as_svg(figure)


def panel(page: Page, pattern: Pattern, item: int, head: int, left: float, name: str) -> None:
    """One head of one batch item, with its axes named."""
    steps = pattern.steps(item, head)
    rows, columns = pattern.shape[2:]
    axes = page.area(left, TOP, columns * CELL, rows * CELL)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    draw_circles(axes, steps.weights.detach(), steps.masked.detach() != -float("inf"))
    axes.add_patch(matplotlib.patches.Rectangle((0, 0), columns, rows, **outline(EDGE, 0.8)))
    page.write(axes, 0.05, -0.35, "keys →", 7.5, color=FAINT)
    page.write(axes, columns - 0.05, -0.35, name, 7.5, color=INK, ha="right")
    if left == LEFT:
        page.write(axes, -0.35, 0.05, "← queries", 7.5, color=FAINT, rotation=90, ha="right", va="top")


def as_svg(figure: Figure) -> str:
    """A figure as the text of an SVG without background, the same whenever it is made."""
    memory = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "regard", "svg.fonttype": "path"}):
        figure.savefig(memory, format="svg", transparent=True, metadata=METADATA[".svg"])
    return memory.getvalue().decode()
