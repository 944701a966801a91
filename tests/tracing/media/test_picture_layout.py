"""Tests of the grids that the image tokens of a text form."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from refusals import refusal

from regard import InputError
from regard.tracing.media.picture_layout import PictureLayout, text_grids, whole_pictures, with_seconds
from regard.tracing.tokens.places import Patch, PatchGrid


def grid(rows, columns, image=0):
    return PatchGrid(image=image, rows=rows, columns=columns, height=rows * 8, width=columns * 8)


@pytest.mark.parametrize(
    ("grids", "n_tokens", "expected"),
    [
        ([(4, 6)], 24, [(4, 6)]),
        ([(4, 6)], 6, [(2, 3)]),
        ([(4, 6), (2, 4)], 8, [(2, 3), (1, 2)]),
        ([(6, 6), (6, 6)], 32, [(4, 4), (4, 4)]),
        ([(4, 6)], 0, []),
    ],
)
def test_image_tokens_are_patches_or_squares_of_patches(grids, n_tokens, expected):
    found = text_grids(SimpleNamespace(), [grid(*shape) for shape in grids], n_tokens)
    assert [(part.rows, part.columns) for part in found] == expected
    assert [(part.height, part.width) for part in found] == [(8 * rows, 8 * columns) for rows, columns in grids][
        : len(found)
    ]


def test_pictures_of_different_sizes_have_their_own_grids():
    """Smaller pictures are padded to the size of the largest; the patches of the padding have no tokens."""
    encoded = {"pixel_values": torch.rand(2, 3, 24, 32), "image_sizes": torch.tensor([[24, 16], [8, 32]])}
    layout = whole_pictures(SimpleNamespace(), encoded, (8, 8), 10)
    assert [tuple(image.shape) for image in layout.images] == [(3, 24, 16), (3, 8, 32)]
    assert layout.encoder[1] == tuple(Patch(1, 0, column, 8.0, 8.0) for column in range(4))
    assert layout.text_patches == layout.encoder[0] + layout.encoder[1]


def test_the_end_of_a_repeated_last_frame_is_that_of_the_video_and_left_out_frames_are_refused():
    layout = PictureLayout((torch.zeros(3, 8, 8),) * 4, ((Patch(0, 0, 0, 8.0, 8.0, n_images=2), "[CLS]"),), ())
    last = replace(layout, text_patches=(Patch(2, 0, 0, 8.0, 8.0, n_images=2), "[NEWLINE]"))
    timed = with_seconds(last, 2.0, 3)
    assert timed.encoder == ((Patch(0, 0, 0, 8.0, 8.0, n_images=2, start_seconds=0.0, end_seconds=1.0), "[CLS]"),)
    assert timed.text_patches == (Patch(2, 0, 0, 8.0, 8.0, n_images=2, start_seconds=1.0, end_seconds=1.5), "[NEWLINE]")
    assert refusal(InputError, with_seconds, layout, 2.0, 5) == (
        "the processor reads 4 of the 5 frames, so their times are not known; leave fps=… out, or give these frames "
        "alone."
    )


def test_tokens_that_form_no_grid_are_refused():
    message = (
        "the text has {} tokens for {} patches, which do not form a grid; regard.watching(model) records the attention "
        "without tokens."
    )
    for config, shapes, n_tokens, patches in (
        (SimpleNamespace(), [(4, 6)], 12, "4 × 6"),
        (SimpleNamespace(), [(3, 3), (5, 5)], 10, "3 × 3 and 5 × 5"),
        (SimpleNamespace(qformer_config=None), [(8, 8)], 16, "8 × 8"),
        (SimpleNamespace(), [(4, 6)], 30, "4 × 6"),
        (SimpleNamespace(), [(4, 4)], 25, "4 × 4"),
    ):
        grids = [grid(*shape) for shape in shapes]
        assert refusal(InputError, text_grids, config, grids, n_tokens) == message.format(n_tokens, patches)
