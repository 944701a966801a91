"""Pictures of attention to an image or a recording: one query's weights on image patches, or on moments of sound."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.tracing.focus import Focus
from regard.tracing.places import Frame, Patch
from regard.tracing.trace import Trace
from regard.views.picture.canvas import (
    EDGE,
    FAINT,
    INK,
    MARGIN,
    STEPS,
    WIDTH,
    Page,
    blank_page,
    draw_cells,
    outline,
)
from regard.views.picture.fonts import Fonts, fonts_for, quoted
from regard.views.shared_text import token_label

TITLE, GAP, PICTURE_WIDTH = 0.72, 0.3, 4.0
"""The height of the title, the space between two pictures, and the width of a picture, in inches."""

SOUND_HEIGHT, N_LISTED, LINE = 1.6, 6, 0.17
"""The height of a spectrogram, and of the weights below it, in inches; the most keys listed; the height of a line."""


def patch_weights(focus: Focus) -> list[tuple[Patch, float]]:
    """Return the image patches among the keys, each with the weight that the query in `focus` has on it."""
    pairs = zip(focus.head.keys, focus.weights, strict=True)
    return [(token.place, weight) for token, weight in pairs if isinstance(token.place, Patch)]


def frame_weights(focus: Focus) -> list[tuple[Frame, float]]:
    """Return the sound frames among the keys, each with the weight that the query in `focus` has on it."""
    pairs = zip(focus.head.keys, focus.weights, strict=True)
    return [(token.place, weight) for token, weight in pairs if isinstance(token.place, Frame)]


def weight_grid(weights: list[tuple[Patch, float]]) -> np.ndarray:
    """Return the weights of image patches as a matrix [rows columns], in which the patches lie as in the image."""
    rows, columns = (1 + max(getattr(patch, axis) for patch, _ in weights) for axis in ("row", "column"))
    grid = np.zeros((rows, columns))
    for patch, weight in weights:
        grid[patch.row, patch.column] = weight
    return grid


def image_figure(trace: Trace, focus: Focus) -> Figure:
    """Return a figure of the image that the model read, the query's weights on its patches, and its other keys."""
    assert trace.image is not None
    weights = patch_weights(focus)
    grid = weight_grid(weights)
    _, height, width = trace.image.shape
    shown = trace.image.permute(1, 2, 0).cpu().numpy()
    tall = PICTURE_WIDTH * height / width
    listed = other_keys(focus)
    page = blank_page(MARGIN + TITLE + tall + 0.75 + LINE * len(listed) + MARGIN, media_fonts(trace, focus))
    write_title(page, trace, focus)
    plain = page.area(MARGIN, MARGIN + TITLE, PICTURE_WIDTH, tall)
    draw_image(plain, shown)
    query = focus.token.place
    if isinstance(query, Patch):
        scale = (PICTURE_WIDTH / width, tall / height)
        corner = (query.column * query.width * scale[0], query.row * query.height * scale[1])
        size = (query.width * scale[0], query.height * scale[1])
        plain.add_patch(Rectangle(corner, *size, **outline("white", 3.0)))
        plain.add_patch(Rectangle(corner, *size, **outline(INK, 1.2), gid="query"))
    over = page.area(MARGIN + PICTURE_WIDTH + GAP, MARGIN + TITLE, PICTURE_WIDTH, tall)
    grey = np.repeat(shown.mean(axis=2, keepdims=True), 3, axis=2)
    draw_image(over, 0.5 + 0.5 * grey)
    largest = max(float(grid.max()), 1e-9)
    over.imshow(
        grid, cmap="inferno", norm=Normalize(0, largest), alpha=0.25 + 0.65 * grid / largest, interpolation="nearest",
        extent=(0.0, PICTURE_WIDTH, tall, 0.0), aspect="auto", gid="weights",
    )  # fmt: skip
    for axes in (plain, over):
        axes.add_patch(Rectangle((0, 0), PICTURE_WIDTH, tall, **outline(EDGE, 0.5)))
    below = page.area(MARGIN, MARGIN + TITLE + tall + 0.2, WIDTH - 2 * MARGIN, 0.5 + LINE * len(listed))
    text = f"from 0 (dark, faint) to {largest:.3f} (bright); all patches together {grid.sum():.3f}"
    page.write(below, PICTURE_WIDTH + GAP, 0.12, text, 8.5, color=FAINT)
    write_other_keys(page, below, listed)
    return page.figure


def sound_figure(trace: Trace, focus: Focus) -> Figure:
    """Return a figure of the query's weights over time, with the spectrogram that the model read, if it read one."""
    weights = frame_weights(focus)
    listed = other_keys(focus)
    spectrogram = trace.spectrogram
    height = 0.0 if spectrogram is None else SOUND_HEIGHT + 0.15
    page = blank_page(
        MARGIN + TITLE + height + SOUND_HEIGHT + 0.75 + LINE * len(listed) + MARGIN, media_fonts(trace, focus)
    )
    write_title(page, trace, focus)
    width, seconds, top = WIDTH - 2 * MARGIN, weights[-1][0].end_seconds, MARGIN + TITLE
    if spectrogram is not None:
        axes = page.area(MARGIN, top, width, SOUND_HEIGHT)
        bands = spectrogram.cpu().numpy()[::-1]  # low frequencies at the bottom
        axes.imshow(bands, cmap="Greys", extent=(0.0, width, SOUND_HEIGHT, 0.0), aspect="auto", gid="spectrogram")
        axes.add_patch(Rectangle((0, 0), width, SOUND_HEIGHT, **outline(EDGE, 0.5)))
        top += height
    axes = page.area(MARGIN, top, width, SOUND_HEIGHT)
    numbers = np.array([weight for _, weight in weights])
    largest = max(float(numbers.max()), 1e-9)
    edges = np.array([frame.start_seconds for frame, _ in weights] + [seconds]) * width / seconds
    tops = SOUND_HEIGHT * (1 - numbers / largest)
    axes.stairs(tops, edges, baseline=SOUND_HEIGHT, fill=True, color="#2b7bba", gid="weights")
    if isinstance(focus.token.place, Frame):
        axes.axvline(focus.token.place.start_seconds * width / seconds, color="#d62728", linewidth=1.5, gid="query")
    axes.add_patch(Rectangle((0, 0), width, SOUND_HEIGHT, **outline(EDGE, 0.5)))
    below = page.area(MARGIN, top + SOUND_HEIGHT, width, 0.75 + LINE * len(listed))
    step = next(step for step in (s / 10 for s in STEPS) if step * width / seconds >= 0.5)
    for number in range(int(seconds / step) + 1):
        page.write(below, number * step * width / seconds, 0.16, f"{number * step:g} s", 7.0, color=FAINT, ha="center")
    text = f"the top is a weight of {largest:.3f}; the whole recording {numbers.sum():.3f}"
    page.write(below, 0.0, 0.4, text, 8.5, color=FAINT)
    listing = page.area(MARGIN, top + SOUND_HEIGHT + 0.45, width, 0.3 + LINE * len(listed))
    write_other_keys(page, listing, listed)
    return page.figure


def draw_image(axes: Axes, image: np.ndarray) -> None:
    """Draw the image [rows columns 3], with numbers from 0 to 1, into `axes`."""
    draw_cells(axes, image, Normalize(0, 1), "image")


def other_keys(focus: Focus) -> list[tuple[str, float]]:
    """Return the keys that are neither patches nor frames and have the query's largest weights, with these weights."""
    keys = [
        (token_label(position, focus.head.keys), weight)
        for position, (token, weight) in enumerate(zip(focus.head.keys, focus.weights, strict=True))
        if token.place is None and weight >= 5e-4
    ]
    return sorted(keys, key=lambda key: -key[1])[:N_LISTED]


def write_other_keys(page: Page, axes: Axes, listed: list[tuple[str, float]]) -> None:
    """Write the names and weights of keys that are neither patches nor frames, one a line."""
    for line, (name, weight) in enumerate(listed):
        page.write(axes, 0.0, 0.12 + LINE * line, page.fonts.shortened(name, 8.5, 2.5), 8.5)
        page.write(axes, 3.0, 0.12 + LINE * line, f"{weight:.3f}", 8.5, color=INK, ha="right")


def write_title(page: Page, trace: Trace, focus: Focus) -> None:
    """Write the model and the head, and below them the query."""
    axes = page.area(MARGIN, MARGIN, WIDTH - 2 * MARGIN, TITLE)
    name = f"{focus.head.kind} {focus.head.name}" if len(trace.kinds) > 1 else focus.head.name
    model = page.fonts.shortened(trace.model, 15.0, WIDTH - 2 * MARGIN - 2.0, bold=True)
    page.write(axes, 0.0, 0.16, model, 15.0, bold=True)
    page.write(axes, page.fonts.width(f"{model} ", 15.0, bold=True), 0.16, name, 15.0)
    page.write(axes, 0.0, 0.42, f"where {query_label(focus)} looks", 10.5, color=FAINT)


def query_label(focus: Focus) -> str:
    """Return the name of the query: a token of text, an image patch, or a time."""
    place = focus.token.place
    if isinstance(place, Patch):
        return f"the patch in row {place.row}, column {place.column}"
    if isinstance(place, Frame):
        return f"the recording at {place.start_seconds:.2f} s"
    return quoted(token_label(focus.query, focus.head.queries))


def media_fonts(trace: Trace, focus: Focus) -> Fonts:
    return fonts_for(trace.model + "".join(token.text for token in (*focus.head.queries, *focus.head.keys)))
