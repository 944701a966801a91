"""Tests of the weights on the patches of pictures, grouped by picture: in the terminal and as a drawing."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from pictures import texts
from rich.console import Console

from regard import Keep, ScaledDot, attend
from regard.tracing.focus import focus_on
from regard.tracing.tokens.places import Patch
from regard.tracing.tokens.readable_tokens import Token
from regard.views.patch_panels import PatchPanel, WeightScale, patch_panels
from regard.views.picture.trace import figure
from regard.views.terminal.trace import panel_map, shade, show

PLACES = (
    Patch(0, 0, 0, 12.0, 16.0, thumbnail=True, grid_top=2.0),
    Patch(0, 1, 1, 8.0, 8.0),
    Patch(0, 1, 0, 8.0, 8.0),
    Patch(1, 0, 0, 8.0, 8.0),
    None,
    Patch(1, 2, 1, 8.0, 8.0),
)
"""A thumbnail with a margin, a row of patches in the wrong order, a word, and two patches far from each other."""


@pytest.fixture
def two_pictures(handmade):
    trace = handmade("a b c d e f", n_layers=1)
    tokens = tuple(Token(f"p{i}", f"p{i}", place=place) for i, place in enumerate(PLACES))
    pictures = torch.rand(3, 16, 16), torch.rand(3, 24, 16)
    return replace(trace, source=tokens, images=pictures)


def test_patches_lie_in_their_pictures(two_pictures):
    focus = focus_on(two_pictures, token="p1", head="L0H1")
    weights = two_pictures.encoder[0][0, 1, 1].tolist()
    panels = patch_panels(focus, 2)
    assert [panel.name for panel in panels] == ["picture 0", "thumbnail of picture 0", "picture 1"]
    picture, thumbnail, other = (panel.grid() for panel in panels)
    assert_allclose(picture, [[weights[2], weights[1]]])
    assert_allclose(thumbnail, [[weights[0]]])
    assert_allclose(other, [[weights[3], 0], [0, 0], [0, weights[5]]])
    assert (panels[0].rows, panels[2].columns) == (range(1, 2), range(2))


def test_a_spectrogram_in_patches_has_an_axis_of_time(two_pictures):
    """Patches of 0.16 s that begin every 0.1 s, as in AST, row by row from below; the picture is 0.4 s wide."""
    steps = {"row_step": 10.0, "column_step": 10.0}
    times = [{"start_seconds": start, "end_seconds": start + 0.16} for start in (0.0, 0.1, 0.2)]
    places = [Patch(0, row, column, 16.0, 16.0, **steps, **times[column]) for row in (1, 0) for column in range(3)]
    tokens = tuple(Token(f"p{i}", f"p{i}", place=place) for i, place in enumerate(places))
    sound = replace(two_pictures, source=tokens, images=(torch.rand(3, 26, 40),))
    focus = focus_on(sound, token="p1", head="L0H1")
    (panel,) = patch_panels(focus, 1)
    assert panel.seconds_per_pixel == pytest.approx(0.01)
    drawing = figure(sound, focus)
    ticks = [axes for axes in drawing.axes if [text.get_text() for text in axes.texts][:2] == ["0 s", "0.1 s"]]
    assert [text.get_text() for text in ticks[0].texts] == ["0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s"]
    inches_per_second = ticks[0].texts[4].get_position()[0] / 0.4
    pictures = [axes for axes in drawing.axes if any(patch.get_gid() == "query" for patch in axes.patches)]
    assert len(ticks) == len(pictures) == 2
    for axes in pictures:
        (query,) = (patch for patch in axes.patches if patch.get_gid() == "query")
        assert query.get_x() == pytest.approx(0.1 * inches_per_second)
        assert query.get_width() == pytest.approx(0.16 * inches_per_second)
    frames = [Patch(i, 0, 0, 8.0, 8.0, start_seconds=i / 2, end_seconds=(i + 1) / 2) for i in range(6)]
    tokens = tuple(Token(f"p{i}", f"p{i}", place=place) for i, place in enumerate(frames))
    video = replace(two_pictures, source=tokens, images=(torch.rand(3, 8, 8),) * 6)
    video_panels = patch_panels(focus_on(video, token="p1", head="L0H1"), 6)
    assert [panel.seconds_per_pixel for panel in video_panels] == [None] * 6


@pytest.mark.parametrize(("n_columns", "last"), [(30, "2.5       3 s"), (60, "5         6 s")])
def test_the_blocks_of_a_spectrogram_have_an_axis_of_time(n_columns, last):
    """A column begins every 0.1 s and is two characters wide; of 60 columns, a block shows two."""
    times = [{"start_seconds": i / 10, "end_seconds": i / 10 + 0.16} for i in range(n_columns)]
    patches = [Patch(0, 0, i, 16.0, 16.0, column_step=10.0, **times[i]) for i in range(n_columns)]
    panel = PatchPanel("", tuple((patch, 0.1) for patch in patches))
    _, axis, *_ = str(panel_map(panel, WeightScale(0.1, 0.1), None)).splitlines()
    assert axis.endswith(last)
    assert axis.index(last[-3]) == 60


def test_a_picture_with_its_thumbnail_and_a_video_have_names(two_pictures):
    alone = replace(two_pictures, images=two_pictures.images[:1])
    assert [panel.name for panel in patch_panels(focus_on(alone, token="p1", head="L0H1"), 1)][:2] == [
        "picture",
        "thumbnail",
    ]
    tokens = tuple(Token(f"p{i}", f"p{i}", place=Patch(2 * i, 0, 0, 8.0, 8.0, n_images=2)) for i in range(6))
    video = replace(two_pictures, source=tokens, images=(torch.rand(3, 8, 8),) * 12)
    names = [panel.name for panel in patch_panels(focus_on(video, token="p1", head="L0H1"), 12)]
    assert names[:2] == ["frames 0 to 1", "frames 2 to 3"]


def test_the_terminal_has_a_grid_for_each_picture(two_pictures):
    file = io.StringIO()
    show(two_pictures, token="p1", head="L0H1", console=Console(file=file, width=80, highlight=False))
    lines = [line.strip() for line in file.getvalue().splitlines()]
    weights = two_pictures.encoder[0][0, 1, 1]
    first = lines.index(f"picture 0: {float(weights[1] + weights[2]):.3f}")
    drawn = weights[[0, 1, 2, 3, 5]]
    share = max(float((weights[2] - drawn.min()) / (drawn.max() - drawn.min())), 1e-9)
    assert lines[first + 1] == f"{shade(share) * 2}[]"
    assert lines[first + 3] == f"thumbnail of picture 0: {float(weights[0]):.3f}"
    assert lines[first + 6] == f"picture 1: {float(weights[3] + weights[5]):.3f}"


def test_each_picture_is_drawn_beside_the_weights_on_its_patches(two_pictures):
    drawn = figure(two_pictures, focus_on(two_pictures, token="p1", head="L0H1"))
    weights = two_pictures.encoder[0][0, 1, 1].tolist()
    shown = np.array(weights)[[0, 1, 2, 3, 5]]
    grids = [
        (image.get_array(), image.get_extent(), axes)
        for axes in drawn.axes
        for image in axes.get_images()
        if image.get_gid() == "weights"
    ]
    assert [grid.shape for grid, _, _ in grids] == [(1, 2), (1, 1), (3, 2)]
    for (grid, extent, axes), expected, (left, right, bottom, top), height in zip(
        grids,
        ([[weights[2], weights[1]]], [[weights[0]]], [[weights[3], 0], [0, 0], [0, weights[5]]]),
        ((0, 16, 16, 8), (0, 16, 14, 2), (0, 16, 24, 0)),
        (16, 16, 24),
        strict=True,
    ):
        shares = [[(w - shown.min()) / (shown.max() - shown.min()) if w else np.nan for w in row] for row in expected]
        assert_allclose(grid.filled(np.nan), shares, atol=1e-5)
        width, tall = axes.get_xlim()[1], axes.get_ylim()[0]
        assert_allclose(extent, [left * width / 16, right * width / 16, bottom * tall / height, top * tall / height])
    queries = [patch for axes in drawn.axes for patch in axes.patches if patch.get_gid() == "query"]
    query, over_the_weights = queries
    assert over_the_weights.get_xy() == query.get_xy()
    width = query.axes.get_xlim()[1]
    assert_allclose([query.get_x(), query.get_y(), query.get_width()], [width / 2, width / 2, width / 2])
    written = texts(drawn)
    assert "where the patch in row 1, column 1 (picture 0) looks" in written
    assert f"thumbnail of picture 0: {weights[0]:.3f}" in written


@pytest.mark.parametrize(("n_pictures", "columns"), [(1, 2), (2, 2), (3, 4), (5, 4)])
def test_many_pictures_are_drawn_in_rows(handmade, n_pictures, columns):
    trace = handmade("a b c d e", n_layers=1)
    tokens = tuple(Token(f"p{i}", f"p{i}", place=Patch(min(i, n_pictures - 1), 0, i, 8.0, 8.0)) for i in range(5))
    trace = replace(trace, source=tokens, images=(torch.rand(3, 8, 40),) * n_pictures)
    drawn = figure(trace, focus_on(trace, token="p1", head="L0H1"))
    boxes = [axes.get_position() for axes in drawn.axes if any(i.get_gid() == "image" for i in axes.get_children())]
    assert len(boxes) == 2 * n_pictures
    assert len({round(box.x0, 4) for box in boxes}) == columns


def test_almost_equal_weights_are_told_apart(handmade):
    """Weights near 1/6 are scaled from the smallest to the largest; a weight of 0 has no colour and no block."""
    weights = torch.tensor([0.1660, 0.1665, 0.1670, 0.1675, 0.0, 0.1680])
    shares = [0, 1 / 3, 2 / 3, 1]
    key = weights.log().nan_to_num(neginf=0.0).view(1, 1, 6, 1)  # so that the softmax of the scores gives the weights
    seen = attend(torch.ones(1, 1, 6, 1), key, key, score=ScaledDot(scale=1.0), mask=Keep((weights > 0).expand(6, 6)))
    trace = handmade("a b c d e f", n_layers=1)
    places = [*(Patch(0, i // 3, i % 3, 8.0, 8.0) for i in range(5)), None]
    tokens = tuple(Token(text, text, place=place) for text, place in zip([*"pqrst", "[CLS]"], places, strict=True))
    trace = replace(trace, source=tokens, images=(torch.rand(3, 16, 24),), attended={"encoder": {0: seen}})
    focus = focus_on(trace, token="q", head="L0H0")
    scale = WeightScale.of(patch_panels(focus, 1))
    smallest, middle, largest = (float(weight / weights.sum()) for weight in (0.1660, 0.16675, 0.1675))
    assert_allclose([scale.share(w) for w in focus.weights[:4]], shares, atol=1e-3)
    assert [scale.label(share) for share in (0.0, 0.5, 1.0)] == [f"{w:.4f}" for w in (smallest, middle, largest)]
    file = io.StringIO()
    show(trace, token="q", head="L0H0", console=Console(file=file, width=80, highlight=False))
    lines = [line.strip() for line in file.getvalue().splitlines()]
    first = lines.index(f"{shade(1e-9) * 2}[]{shade(2 / 3) * 2}")
    assert lines[first + 1] == shade(1.0) * 2
    assert lines[first + 3] == f"·· {smallest:.4f} to ██ {largest:.4f}"
    drawn = figure(trace, focus)
    ((grid,),) = ([image for image in axes.get_images() if image.get_gid() == "weights"] for axes in drawn.axes[2:3])
    assert_allclose(np.array(grid.get_array().filled(np.nan)), [shares[:3], [1, np.nan, np.nan]], atol=1e-3)
    written = texts(drawn)
    assert {f"{w:.4f}" for w in (smallest, middle, largest)} | {"[CLS]", f"{0.168 / weights.sum():.3f}"} <= {*written}
    assert "all patches together 0.799; a patch without colour has the weight 0" in written
    assert "the largest weights on tokens that are no patches" in written


def test_one_weight_for_all_patches_is_drawn_in_full():
    scale = WeightScale(0.25, 0.25)
    assert (scale.share(0.25), scale.label(0.0), scale.label(1.0)) == (1.0, "0.250", "0.250")


def test_a_block_stands_for_several_patches_if_a_row_is_too_long_for_a_line():
    weights = [[0.1] * 40, [0.2] * 40]
    weights[0][5], weights[1][38] = 1.0, 0.6
    panel = PatchPanel("", tuple((Patch(0, r, c, 8.0, 8.0), weights[r][c]) for r in range(2) for c in range(40)))
    scale = WeightScale.of([panel])
    first, second, remark = panel_map(panel, scale, Patch(0, 0, 1, 8.0, 8.0)).plain.splitlines()
    least, low, half = (shade(max(scale.share(weight), 1e-9)) * 2 for weight in (0.1, 0.2, 0.6))
    assert first == "[]" + least + "██" + least * 17  # the query is in block 0, the largest weight in block 2
    assert second == low * 19 + half
    assert remark == "each block: the largest weight of 2 patches side by side"
    short = PatchPanel("", panel.weights[:38])
    assert len(panel_map(short, scale, None).plain) == 76


def test_the_names_of_frames_fit_beside_each_other(two_pictures):
    """Over three pictures in two columns, each name with a time and a weight is as wide as its picture at most."""
    seconds = [{"start_seconds": 100.0 + i, "end_seconds": 101.0 + i} for i in range(6)]
    places = [Patch(2 * i, 0, 0, 8.0, 8.0, n_images=2, **seconds[i]) for i in range(6)]
    tokens = tuple(Token(f"p{i}", f"p{i}", place=place) for i, place in enumerate(places))
    video = replace(two_pictures, source=tokens, images=(torch.rand(3, 8, 8),) * 12)
    drawing = figure(video, focus_on(video, token="p1", head="L0H1"))
    names = [text for axes in drawing.axes for text in axes.texts if text.get_text().startswith("frames ")]
    assert len(names) == 12
    for name in names:
        assert name.get_window_extent().width <= name.axes.get_window_extent().width * 1.001
