"""Draw the patterns of many heads side by side in one picture: all heads of one layer, or all layers × heads.

Source: the model view of Vig 2019 (BertViz).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from regard.errors import counted
from regard.tracing.decoder_note import decoder_note
from regard.tracing.focus import group_by_layer
from regard.tracing.head import Head
from regard.tracing.patterns_by_layer import missing_layer_error
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.trace import Trace
from regard.views.picture.canvas import (
    CAPTION_LINE,
    DPI,
    EDGE,
    FAINT,
    INNER_WIDTH,
    MARGIN,
    STEPS,
    Page,
    blank_page,
    check_picture_path,
    draw_cells,
    save_figure,
    weight_colours,
)
from regard.views.picture.fonts import Fonts, fonts_for
from regard.views.picture.pattern import SQUARE_ROOT_SCALE, PatternCells, half_capital, label_text, pattern_cells
from regard.views.shared_text import CAUTION, single_line, size_label

TITLE_HEIGHT = 0.72
"""The height of the title, in inches."""

MOST_ROW_CELLS, LEAST_CELLS = 1600, 8
"""If n patterns are side by side, each is at most max(LEAST_CELLS, MOST_ROW_CELLS / n) cells wide and high."""

MOST_NAMED = 20
"""If a text has at most this many tokens, all tokens are written beside the patterns of a single layer."""


@dataclass(frozen=True, slots=True, eq=False)
class Mosaic:
    """The patterns of several heads, arranged in rows and columns as one image. All lengths are numbers of cells.

    A pattern is drawn as a grid of cells. A cell shows one weight, or the largest of several weights. White cells
    separate the patterns.

    Attributes:
        heads: the heads, layer after layer.
        cells: for each layer, the cells of all its heads.
        places: for each head, the place of its pattern: (0, 2) = the third pattern in the first row of patterns.
        between: the number of white cells between two patterns side by side.
        below: the number of white cells between two rows of patterns.
        layout: the number of rows, and of columns, of patterns.
        pattern_size: the height and width of one pattern.
        image_size: the height and width of the whole image.
    """

    heads: Sequence[Head]
    cells: Sequence[PatternCells]
    places: Sequence[tuple[int, int]]
    between: int
    below: int

    @property
    def layout(self) -> tuple[int, int]:
        rows, columns = zip(*self.places, strict=True)
        return max(rows) + 1, max(columns) + 1

    @property
    def pattern_size(self) -> tuple[int, int]:
        rows, columns = self.cells[0].weights.shape[1:]
        return rows, columns

    @property
    def image_size(self) -> tuple[int, int]:
        (rows, columns), (n_rows, n_columns) = self.pattern_size, self.layout
        return n_rows * (rows + self.below) - self.below, n_columns * (columns + self.between) - self.between

    def side(self, width: float) -> float:
        """Return the side of a cell in inches: the image is at most `width` wide, and a pattern at most `width` / 3."""
        _, image_width = self.image_size
        _, pattern_width = self.pattern_size
        return whole_pixels(width / max(image_width, 3 * pattern_width))

    def corner(self, place: tuple[int, int]) -> tuple[int, int]:
        """Return (row, column) of a pattern's top left cell; `place` (1, 2) = third pattern in the second row."""
        rows, columns = self.pattern_size
        return place[0] * (rows + self.below), place[1] * (columns + self.between)

    def image(self) -> Float[np.ndarray, "rows columns 3"]:
        """Return RGB colours from 0 to 1: blue for weights, grey for masked cells, white between the patterns."""
        (rows, columns), colours = self.pattern_size, weight_colours()
        image = np.ones((*self.image_size, 3))
        patterns = [pattern for layer in self.cells for pattern in zip(layer.weights, layer.allowed, strict=True)]
        for place, (weights, allowed) in zip(self.places, patterns, strict=True):
            top, left = self.corner(place)
            darkness = SQUARE_ROOT_SCALE(np.ma.masked_array(weights.numpy(), ~allowed.numpy()))
            image[top : top + rows, left : left + columns] = colours(darkness)[..., :3]  # without opacity
        return image


def write_heads(trace: Trace, path: Path, layer: int | None = None, kind: str | None = None) -> Path:
    """Draw the patterns of all heads into a .png, .svg or .pdf file, and return the path.

    Args:
        layer: the number of the layer whose heads are drawn; None = the heads of all layers, in small patterns.
        kind: the kind of attention, "encoder", "decoder" or "cross"; None = the last of these that the trace has.
    """
    check_picture_path(path)
    return save_figure(heads_figure(trace, layer, kind), path)


def heads_figure(trace: Trace, layer: int | None = None, kind: str | None = None) -> Figure:
    """Return a figure with the patterns of all heads; `write_heads` describes the arguments."""
    heads = select_heads(trace, layer, kind)
    queries, keys = heads[0].queries, heads[0].keys
    fonts = fonts_for(trace.model + trace.text + "".join(token.text for token in (*queries, *keys)))
    has_token_labels = layer is not None and max(len(queries), len(keys)) <= MOST_NAMED
    left, above = 0.4, 0.35
    if has_token_labels:
        left, above = token_margin(queries, fonts), token_margin(keys, fonts)
    mosaic = mosaic_of(heads, one_layer=layer is not None)
    side = mosaic.side(INNER_WIDTH - left)
    texts = [*notes(mosaic), decoder_note(trace, heads[0].kind), CAUTION, fonts.advice]
    caption = fonts.lines(" ".join(texts), 8.5, INNER_WIDTH)

    bottom = MARGIN + TITLE_HEIGHT + above + mosaic.image_size[0] * side + 0.45
    page = blank_page(bottom + CAPTION_LINE * len(caption) + MARGIN, fonts)
    write_title(page, trace, heads, layer)
    axes = draw_mosaic(page, MARGIN + left, MARGIN + TITLE_HEIGHT + above, mosaic, side)
    if layer is None:
        write_layer_and_head_numbers(page, axes, mosaic, side)
    else:
        write_head_names(page, axes, mosaic, side, [head.name for head in heads])
    if has_token_labels:
        write_tokens(page, axes, mosaic, side)
    page.write_caption(bottom, caption)
    return page.figure


def whole_pixels(side: float) -> float:
    """Return a side, in inches, rounded down to whole pixels; a side below one pixel is not changed.

    >>> whole_pixels(0.0234) * DPI, whole_pixels(0.001)
    (4.0, 0.001)
    """
    return math.floor(side * DPI) / DPI if side * DPI >= 1 else side


def select_heads(trace: Trace, layer: int | None, kind: str | None) -> list[Head]:
    heads = trace.heads(kind or trace.kinds[-1])
    layers = {head.layer for head in heads}
    if layer is not None and layer not in layers:
        raise missing_layer_error(layer, layers, "draw")
    return [head for head in heads if layer in (None, head.layer)]


def mosaic_of(heads: Sequence[Head], one_layer: bool) -> Mosaic:
    """Arrange patterns as one image: in a row for each layer, or, if `one_layer`, in about as many rows as columns."""
    layers = group_by_layer(heads)
    if one_layer:
        columns = math.ceil(math.sqrt(len(heads)))
        places = [divmod(index, columns) for index in range(len(heads))]
    else:
        columns = max(map(len, layers))
        places = [(row, column) for row, layer in enumerate(layers) for column in range(len(layer))]
    max_cells = max(LEAST_CELLS, MOST_ROW_CELLS // columns)
    cells = [pattern_cells(layer[0].pattern, [head.number for head in layer], max_cells) for layer in layers]
    pattern_height, pattern_width = cells[0].weights.shape[1:]
    between, below = max(1, round(0.08 * pattern_width)), max(1, round(0.08 * pattern_height))
    if one_layer:  # for the names of the heads: 0.3 inches in an image as wide as the page, less in a narrower image
        cells_per_inch = columns * (pattern_width + between) / INNER_WIDTH
        below = math.ceil(0.3 * cells_per_inch)
    return Mosaic(heads, cells, places, between, below)


def notes(mosaic: Mosaic) -> list[str]:
    n_queries, n_keys = len(mosaic.heads[0].queries), len(mosaic.heads[0].keys)
    rows, columns = mosaic.cells[0].weights.shape[1:]
    sentences = ["Each panel is a head: rows are queries, columns are keys, the first token top left."]
    if (rows, columns) != (n_queries, n_keys):
        pooling = f"{n_queries} × {n_keys} weights pooled to {rows} × {columns} cells, each showing its largest"
        sentences.append(f"In each, {pooling}.")
    sentences.append("Darkness grows with the square root of the weight.")
    if not all(bool(layer.allowed.all()) for layer in mosaic.cells):
        sentences.append("Grey: hidden by the mask.")
    return sentences


def write_title(page: Page, trace: Trace, heads: Sequence[Head], layer: int | None) -> None:
    """Write the title: the model; below it, the kind of attention, the number of heads, and the text."""
    axes = page.area(MARGIN, MARGIN, INNER_WIDTH, TITLE_HEIGHT)
    page.write(axes, 0.0, 0.16, page.fonts.shortened(trace.model, 15.0, INNER_WIDTH, bold=True), 15.0, bold=True)
    heads_label = size_label(heads) if layer is None else f"layer {layer} · {counted(len(heads), 'head')}"
    shortened_text = page.fonts.shortened(single_line(trace.text), 10.5, INNER_WIDTH - 3)
    text = " · ".join(filter(None, (heads[0].kind, heads_label, shortened_text)))
    page.write(axes, 0.0, 0.42, text, 10.5, color=FAINT)


def draw_mosaic(page: Page, left: float, top: float, mosaic: Mosaic, side: float) -> Axes:
    """Draw all patterns of `mosaic`, each in a frame, with cells of `side` inches; return the axes."""
    (rows, columns), (height, width) = mosaic.pattern_size, mosaic.image_size
    axes = page.area(left, top, width * side, height * side)
    axes.set(xlim=(0, width), ylim=(height, 0))
    draw_cells(axes, mosaic.image(), SQUARE_ROOT_SCALE, "patterns")
    corners = [mosaic.corner(place) for place in mosaic.places]
    frames = [[(x, y), (x + columns, y), (x + columns, y + rows), (x, y + rows)] for y, x in corners]
    frame_points = min(0.5, 0.5 * columns * side)  # thinner around patterns that are narrower than an inch
    lines = PolyCollection(frames, facecolors="none", edgecolors=EDGE, linewidths=frame_points, clip_on=False)
    axes.add_collection(lines, autolim=False)
    return axes


def write_layer_and_head_numbers(page: Page, axes: Axes, mosaic: Mosaic, side: float) -> None:
    """Write the numbers of layers left of the patterns, and of heads above them; only some if space is short.

    A length in inches, divided by `side`, is in cells, the coordinates of `axes`.
    """
    rows, columns = mosaic.pattern_size
    step = next(step for step in STEPS if step * (columns + mosaic.between) * side >= 0.2)
    layers = [heads[0].layer for heads in group_by_layer(mosaic.heads)]
    n_rows, n_columns = mosaic.layout
    for head in range(0, n_columns, step):
        _, left = mosaic.corner((0, head))
        page.write(axes, left + columns / 2, -0.07 / side, str(head), 7.5, color=FAINT, ha="center")
    for row in range(0, n_rows, step):
        top, _ = mosaic.corner((row, 0))
        y = top + rows / 2 + half_capital(7.5) / side
        page.write(axes, -0.07 / side, y, str(layers[row]), 7.5, color=FAINT, ha="right")
    height, width = mosaic.image_size
    page.write(axes, width / 2, -0.24 / side, "head", 8.0, color=FAINT, ha="center")
    page.write(axes, -0.3 / side, height / 2, "layer", 8.0, color=FAINT, ha="center", va="center", rotation=90)


def write_head_names(page: Page, axes: Axes, mosaic: Mosaic, side: float, names: Sequence[str]) -> None:
    rows, columns = mosaic.pattern_size
    for place, name in zip(mosaic.places, names, strict=True):
        top, left = mosaic.corner(place)
        page.write(axes, left + columns / 2, top + rows + 0.15 / side, name, 8.5, ha="center")


def token_margin(tokens: Sequence[Token], fonts: Fonts) -> float:
    """Return the space beside the patterns for the names of tokens, in inches."""
    return max(fonts.width(label_text(token, 8.0, fonts), 8.0) for token in tokens) + 0.1


def write_tokens(page: Page, axes: Axes, mosaic: Mosaic, side: float) -> None:
    """Write the query tokens left of every row of patterns, and the key tokens above each pattern of the first row."""
    cell_points = side * 72
    size = min(8.0, cell_points * 0.8)
    for place, head in zip(mosaic.places, mosaic.heads, strict=True):
        top, left = mosaic.corner(place)
        if left == 0:
            for row, token in enumerate(head.queries):
                y = top + row + 0.5 + half_capital(size) / side
                page.write(axes, -0.06 / side, y, label_text(token, size, page.fonts), size, ha="right")
        if top == 0:
            for column, token in enumerate(head.keys):
                x = left + column + 0.5 + half_capital(size) / side
                text = label_text(token, size, page.fonts)
                page.write(axes, x, -0.06 / side, text, size, rotation=90, rotation_mode="anchor", ha="left")
