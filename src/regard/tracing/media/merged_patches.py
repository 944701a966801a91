"""Pictures and videos of models such as Qwen2-VL, in which one text token stands for a square of patches.

The processor of such a model returns all patches in one list, in which the merge_size × merge_size patches of a square
follow one another. In a video, a patch covers several successive frames (`temporal_patch_size`, mostly 2). Some models
divide a picture into windows of several squares (`window_size`): they read the squares window by window, and in some
layers a patch attends only to patches of its own window.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from regard.tracing.media.picture_layout import PictureLayout
from regard.tracing.tokens.places import Patch, PatchGrid


def merged_squares(vision: Any, encoded: Mapping[str, Tensor], patch_size: int) -> PictureLayout:
    """Return the `PictureLayout` of a model like Qwen2-VL, from its vision configuration and its processor's output."""
    is_video = "video_grid_thw" in encoded
    pixels = encoded["pixel_values_videos" if is_video else "pixel_values"]
    shapes = encoded["video_grid_thw" if is_video else "image_grid_thw"].tolist()
    merge, window = vision.spatial_merge_size, getattr(vision, "window_size", None)
    window_side = None if window is None else window // merge // patch_size  # counts squares
    images: list[Tensor] = []
    encoder: list[Patch] = []
    text_patches: list[Patch] = []
    n_patches = [n_times * rows * columns for n_times, rows, columns in shapes]
    for patches, (n_times, rows, columns) in zip(torch.split(pixels, n_patches), shapes, strict=True):
        frames = frames_of(patches, rows // merge, merge, patch_size, n_times)
        # the frames in a patch of a picture are copies of it; each frame of a video becomes an image of the layout
        frames_per_patch = len(frames) // n_times if is_video else 1
        for time in range(n_times):
            grid = PatchGrid(
                image=len(images), rows=rows, columns=columns, height=rows * patch_size, width=columns * patch_size,
                n_images=frames_per_patch,
            )  # fmt: skip
            order = patch_order(rows // merge, columns // merge, merge, window_side)
            encoder += [grid.patch(row, column) for row, column in order]
            text_patches += replace(grid, rows=rows // merge, columns=columns // merge).patches()
            images += frames[time * frames_per_patch :][:frames_per_patch] if is_video else frames[:1]
    all_as_one_sequence = (tuple(encoder),)
    return PictureLayout(images=tuple(images), encoder=all_as_one_sequence, text_patches=tuple(text_patches))


def frames_of(
    pixels: Float[Tensor, "patches numbers"], rows: int, merge: int, patch_size: int, n_times: int = 1
) -> Float[Tensor, "frames 3 height width"]:
    """Return the frames of a video, or a picture, put together from the patches that the processor returned.

    The patches come in squares of merge × merge; `rows` is the number of rows of squares. `n_times` is the number of
    patches along the time axis; 1 for a picture.
    """
    return rearrange(
        pixels,
        "(times rows columns m n) (c frames p q) -> (times frames) c (rows m p) (columns n q)",
        times=n_times, rows=rows, m=merge, n=merge, c=3, p=patch_size, q=patch_size,
    )  # fmt: skip


def patch_order(rows: int, columns: int, merge: int, window_side: int | None) -> list[tuple[int, int]]:
    """Return the row and the column of each patch, in the order in which the vision model reads them.

    The model reads square by square; a square has merge × merge patches. `rows` and `columns` are numbers of squares.
    With windows of `window_side` × `window_side` squares, it reads window by window; None = it reads row by row.
    """
    squares = [(row, column) for row in range(rows) for column in range(columns)]
    if window_side is not None:
        squares.sort(key=lambda square: (square[0] // window_side, square[1] // window_side, *square))
    inside = [(row, column) for row in range(merge) for column in range(merge)]
    return [(row * merge + m, column * merge + n) for row, column in squares for m, n in inside]
