"""The attention of one query to images or to a recording: its weights on image patches, or on moments of sound."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.tracing.focus import Focus
from regard.tracing.tokens.places import Frame, Patch
from regard.tracing.trace import Trace
from regard.views.patch_panels import PatchPanel, WeightScale, frame_weights, patch_panels, picture_name
from regard.views.picture.canvas import (
    EDGE,
    FAINT,
    INK,
    INNER_WIDTH,
    MARGIN,
    STEPS,
    Page,
    blank_page,
    draw_cells,
    outline,
)
from regard.views.picture.fonts import Fonts, fonts_for, quoted
from regard.views.shared_text import CAUTION, token_label

TITLE_HEIGHT, GAP, LIST_WIDTH, BAR_WIDTH = 0.72, 0.3, 4.0, 3.0
"""In inches: the height of the title, the space between two drawings, the width of the list of keys that are not
patches, and the width of the colour bar."""

ABOVE_BAR, BAR_HEIGHT, AROUND_LIST = 0.2, 0.12, 0.75
"""In inches: the space between the pictures and the colour bar, the height of the bar, and the height of the
caption above and the caution below the list of keys."""

NAME_HEIGHT, SECONDS_HEIGHT = 0.22, 0.22
"""In inches: the height of the line above a picture with its name, and of the axis of time below a spectrogram."""

SOUND_HEIGHT, N_LISTED, LINE_HEIGHT = 1.6, 6, 0.17
"""SOUND_HEIGHT is the height of a spectrogram, and of the weights below it, in inches. At most N_LISTED keys that are
neither patches nor sound are listed; a line of this list is LINE_HEIGHT inches high."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the figure, with one of the pictures that the model read. Lengths are in inches.

    Attributes:
        has_weights: True = the query's weights are drawn over the picture; False = the picture alone is drawn.
    """

    panel: PatchPanel
    has_weights: bool
    left: float
    top: float
    width: float
    height: float


def image_figure(trace: Trace, focus: Focus) -> Figure:
    panels, listed = patch_panels(focus, len(trace.images)), other_keys(focus)
    cells = lay_out_pictures(trace, panels)
    bottom = max(cell.top + cell.height for cell in cells)
    bottom += 0.0 if panels[0].seconds_per_pixel is None else SECONDS_HEIGHT
    page = blank_page(bottom + ABOVE_BAR + AROUND_LIST + LINE_HEIGHT * len(listed) + MARGIN, fonts_of(trace, focus))
    write_title(page, trace, focus, f"where {query_label(focus, len(trace.images))} looks")
    scale = WeightScale.of(panels)
    for cell in cells:
        if cell.panel.name:
            above = page.area(cell.left, cell.top - NAME_HEIGHT, cell.width, NAME_HEIGHT)
            name = f"{cell.panel.name}: {cell.panel.total:.3f}" if cell.has_weights else cell.panel.name
            size = min(8.5, 8.5 * cell.width / page.fonts.width(name, 8.5))
            page.write(above, 0.0, 0.11, name, size, color=FAINT)
        draw_picture(page.area(cell.left, cell.top, cell.width, cell.height), trace, focus, cell, scale)
    seconds_per_pixel = panels[0].seconds_per_pixel
    if seconds_per_pixel is not None:
        for cell in cells:
            axes = page.area(cell.left, cell.top + cell.height, cell.width, SECONDS_HEIGHT)
            write_seconds(page, axes, cell.width, trace.images[0].shape[2] * seconds_per_pixel)
    below = bottom + ABOVE_BAR
    sum_text = f"all patches together {sum(panel.total for panel in panels):.3f}"
    if any(weight == 0 for panel in panels for _, weight in panel.weights):
        sum_text += "; a patch without colour has the weight 0"
    draw_colour_bar(page, MARGIN + LIST_WIDTH + GAP, below, scale, sum_text)
    area = page.area(MARGIN, below, INNER_WIDTH, 0.7 + LINE_HEIGHT * len(listed))
    write_other_keys(page, area, listed, "patches")
    return page.figure


def draw_colour_bar(page: Page, left: float, top: float, scale: WeightScale, sum_text: str) -> None:
    axes = page.area(left, top, BAR_WIDTH, BAR_HEIGHT)
    draw_cells(axes, np.full((1, 1, 3), 0.75), Normalize(0, 1), "scale ground")
    draw_weights(axes, np.linspace(0, 1, 256)[None], (0.0, BAR_WIDTH, BAR_HEIGHT, 0.0), "scale")
    axes.add_patch(Rectangle((0, 0), BAR_WIDTH, BAR_HEIGHT, **outline(EDGE, 0.5)))
    for share, side in ((0.0, "left"), (0.5, "center"), (1.0, "right")):
        page.write(axes, share * BAR_WIDTH, 0.27, scale.label(share), 7.0, color=FAINT, ha=side)
    page.write(axes, 0.0, 0.48, sum_text, 8.5, color=FAINT)


def draw_weights(
    axes: Axes, shares: Float[np.ndarray, "rows columns"], extent: tuple[float, float, float, float], gid: str
) -> None:
    """Draw weights over a grey picture; `shares` are positions on the colour scale, from 0 to 1, or NaN = no colour."""
    # The smallest weight is visible, and under the largest the picture is; NaN has opacity 0.
    opacities = np.nan_to_num(0.25 + 0.65 * shares)
    axes.imshow(
        shares, cmap="inferno", norm=Normalize(0, 1), alpha=opacities, extent=extent,
        aspect="auto", interpolation="nearest", gid=gid,
    )  # fmt: skip


def lay_out_pictures(trace: Trace, panels: Sequence[PatchPanel]) -> list[Cell]:
    """Return the cells of the figure: each picture alone, then again under the weights of each of its panels."""
    # `patch_panels` returns the panels of a picture one after the other
    pictures = [list(group) for _, group in groupby(panels, key=lambda panel: panel.first_patch.image)]
    n_drawings = 1 + max(map(len, pictures))
    pictures_per_row = 2 if n_drawings == 2 and len(pictures) > 2 else 1  # for many frames of a video
    n_columns = pictures_per_row * n_drawings
    width = (INNER_WIDTH - GAP * (n_columns - 1)) / n_columns
    cells, top = list[Cell](), MARGIN + TITLE_HEIGHT
    for start in range(0, len(pictures), pictures_per_row):
        row_height, column = 0.0, 0
        top += NAME_HEIGHT if len(panels) > 1 else 0.0
        for panels_of_picture in pictures[start : start + pictures_per_row]:
            first_panel, *_ = panels_of_picture
            _, pixels_high, pixels_wide = trace.images[first_panel.first_patch.image].shape
            height = width * pixels_high / pixels_wide
            row_height = max(row_height, height)
            for panel, has_weights in ((first_panel, False), *((panel, True) for panel in panels_of_picture)):
                cells.append(Cell(panel, has_weights, MARGIN + column * (width + GAP), top, width, height))
                column += 1
        top += row_height + GAP / 2
    return cells


def draw_picture(axes: Axes, trace: Trace, focus: Focus, cell: Cell, scale: WeightScale) -> None:
    first = cell.panel.first_patch
    _, height, width = trace.images[first.image].shape
    pixels = trace.images[first.image].permute(1, 2, 0).cpu().numpy()
    pixel_width, pixel_height = cell.width / width, cell.height / height  # in inches
    if cell.has_weights:
        pale_grey = 0.5 + 0.5 * np.repeat(pixels.mean(axis=2, keepdims=True), 3, axis=2)
        draw_cells(axes, pale_grey, Normalize(0, 1), "image")
        rows, columns, grid = cell.panel.rows, cell.panel.columns, cell.panel.grid()
        # the rectangle of all patches of the panel, in pixels
        first_top, first_left, row_height, column_width = first.cell
        top = first_top + (rows.start - first.row) * row_height
        left = first_left + (columns.start - first.column) * column_width
        right, bottom = left + len(columns) * column_width, top + len(rows) * row_height
        shares = np.where(grid > 0, np.vectorize(scale.share)(grid), np.nan)
        extent = left * pixel_width, right * pixel_width, bottom * pixel_height, top * pixel_height
        draw_weights(axes, shares, extent, "weights")
        axes.set(xlim=(0.0, cell.width), ylim=(cell.height, 0.0))
    else:
        draw_cells(axes, pixels, Normalize(0, 1), "image")
    query = focus.token.place
    if isinstance(query, Patch) and query.image == first.image:
        is_in_this_panel = query.thumbnail == first.thumbnail
        if is_in_this_panel or not cell.has_weights:  # the picture alone shows a query of any of its panels
            corner = (query.left * pixel_width, query.top * pixel_height)
            size = (query.width * pixel_width, query.height * pixel_height)
            axes.add_patch(Rectangle(corner, *size, **outline("white", 3.0)))
            axes.add_patch(Rectangle(corner, *size, **outline(INK, 1.2), gid="query"))
    axes.add_patch(Rectangle((0, 0), cell.width, cell.height, **outline(EDGE, 0.5)))


def sound_figure(trace: Trace, focus: Focus) -> Figure:
    """Return a figure of the query's weights over time; above it the spectrogram, if the model read one."""
    weights = frame_weights(focus)
    listed = other_keys(focus)
    spectrogram = trace.spectrogram
    spectrogram_height = 0.0 if spectrogram is None else SOUND_HEIGHT + 0.15
    bottom = MARGIN + TITLE_HEIGHT + spectrogram_height + SOUND_HEIGHT
    page = blank_page(bottom + 1.0 + LINE_HEIGHT * len(listed) + MARGIN, fonts_of(trace, focus))
    write_title(page, trace, focus, f"where {query_label(focus, len(trace.images))} looks")
    width, seconds, top = INNER_WIDTH, weights[-1][0].end_seconds, MARGIN + TITLE_HEIGHT
    inches_per_second = width / seconds
    if spectrogram is not None:
        axes = page.area(MARGIN, top, width, SOUND_HEIGHT)
        bands = spectrogram.cpu().numpy()[::-1]  # reversed, so that low frequencies are at the bottom
        axes.imshow(bands, cmap="Greys", extent=(0.0, width, SOUND_HEIGHT, 0.0), aspect="auto", gid="spectrogram")
        axes.add_patch(Rectangle((0, 0), width, SOUND_HEIGHT, **outline(EDGE, 0.5)))
        top += spectrogram_height
    axes = page.area(MARGIN, top, width, SOUND_HEIGHT)
    numbers = np.array([weight for _, weight in weights])
    largest = max(float(numbers.max()), 1e-9)
    edges = np.array([frame.start_seconds for frame, _ in weights] + [seconds]) * inches_per_second
    tops = SOUND_HEIGHT * (1 - numbers / largest)
    axes.stairs(tops, edges, baseline=SOUND_HEIGHT, fill=True, color="#2b7bba", gid="weights")
    if isinstance(focus.token.place, Frame):
        x = focus.token.place.start_seconds * inches_per_second
        axes.axvline(x, color="#d62728", linewidth=1.5, gid="query")
    axes.add_patch(Rectangle((0, 0), width, SOUND_HEIGHT, **outline(EDGE, 0.5)))
    below = page.area(MARGIN, top + SOUND_HEIGHT, width, 0.75 + LINE_HEIGHT * len(listed))
    write_seconds(page, below, width, seconds)
    text = f"the top is a weight of {largest:.3f}; the whole recording {numbers.sum():.3f}"
    page.write(below, 0.0, 0.4, text, 8.5, color=FAINT)
    listing = page.area(MARGIN, top + SOUND_HEIGHT + 0.5, width, 0.5 + LINE_HEIGHT * len(listed))
    write_other_keys(page, listing, listed, "frames of the recording")
    return page.figure


def write_seconds(page: Page, axes: Axes, width: float, seconds: float) -> None:
    """Write the labels of an axis of time at the top of `axes`; `width` inches are `seconds`."""
    inches_per_second = width / seconds
    step = next(step / 10 for step in STEPS if step / 10 * inches_per_second >= 0.5)
    for number in range(int(seconds / step + 1e-6) + 1):
        x = number * step * inches_per_second
        page.write(axes, x, 0.16, f"{number * step:g} s", 7.0, color=FAINT, ha="center")


def other_keys(focus: Focus) -> list[tuple[str, float]]:
    """Return names and weights of the strongest keys that are neither patches nor sound frames, at most N_LISTED."""
    keys = [
        (token_label(position, focus.head.keys), weight)
        for position, (token, weight) in enumerate(zip(focus.head.keys, focus.weights, strict=True))
        if token.place is None and weight > 0
    ]
    return sorted(keys, key=lambda key: -key[1])[:N_LISTED]


def write_other_keys(page: Page, axes: Axes, listed: list[tuple[str, float]], drawn: str) -> None:
    """List keys that are not drawn, with a caption and a caution; `drawn` names the drawn keys, such as "patches"."""
    caption = f"the largest weights on tokens that are no {drawn}" if listed else f"all weights are on {drawn}"
    page.write(axes, 0.0, 0.12, caption, 8.5, color=FAINT)
    for line, (name, weight) in enumerate(listed, start=1):
        page.write(axes, 0.0, 0.12 + LINE_HEIGHT * line, page.fonts.shortened(name, 8.5, 2.5), 8.5)
        number = f"{weight:.3f}" if weight >= 5e-4 else f"{weight:.1e}"
        page.write(axes, 3.0, 0.12 + LINE_HEIGHT * line, number, 8.5, color=INK, ha="right")
    page.write(axes, 0.0, 0.2 + LINE_HEIGHT * max(3, len(listed) + 1), CAUTION, 8.5, color=FAINT)


def write_title(page: Page, trace: Trace, focus: Focus, finding: str) -> None:
    """Write the names of the model and the head, and below them the line `finding`."""
    axes, fonts = page.area(MARGIN, MARGIN, INNER_WIDTH, TITLE_HEIGHT), page.fonts
    name = f"{focus.head.kind} {focus.head.name}" if len(trace.kinds) > 1 else focus.head.name
    model = fonts.shortened(trace.model, 15.0, INNER_WIDTH - fonts.width(f" {name}", 15.0), bold=True)
    page.write(axes, 0.0, 0.16, model, 15.0, bold=True)
    page.write(axes, fonts.width(f"{model} ", 15.0, bold=True), 0.16, name, 15.0)
    page.write(axes, 0.0, 0.42, finding, 10.5, color=FAINT)


def query_label(focus: Focus, n_images: int) -> str:
    """Describe the query: "the patch in row 1, column 2", "the recording at 0.50 s", or a token in quotation marks."""
    place = focus.token.place
    if isinstance(place, Patch):
        picture = picture_name(place, n_images)
        if n_images == 1 and place.end_seconds is not None:  # of a spectrogram
            picture = f"{place.start_seconds:.2f} to {place.end_seconds:.2f} s"
        return f"the patch in row {place.row}, column {place.column}{f' ({picture})' if picture else ''}"
    if isinstance(place, Frame):
        return f"the recording at {place.start_seconds:.2f} s"
    return quoted(token_label(focus.query, focus.head.queries))


def fonts_of(trace: Trace, focus: Focus) -> Fonts:
    return fonts_for(trace.model + "".join(token.text for token in (*focus.head.queries, *focus.head.keys)))
