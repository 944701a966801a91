"""The patches of the Audio Spectrogram Transformer (AST): squares of the spectrogram that overlap their neighbours.

In the trace, the picture is the whole spectrogram, the highest bands at the top; rows are counted from the top.

Source: Gong, Chung & Glass 2021, "AST: audio spectrogram transformer", section 2.1.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.tracing.media.picture_layout import PictureLayout
from regard.tracing.tokens.places import Patch


def overlapping_patches(
    picture: Float[Tensor, "3 rows frames"], n_bands: int, config: Any, seconds_per_frame: float
) -> PictureLayout:
    """Return the patches in the order of AST's tokens: row by row, the lowest bands first.

    `picture` shows the spectrogram: each frame is one column of pixels, each of the `n_bands` bands one or more rows.
    """
    _, height, width = picture.shape
    band_height, side = height / n_bands, config.patch_size  # `side` counts bands and frames
    n_rows = (n_bands - side) // config.frequency_stride + 1
    n_columns = (width - side) // config.time_stride + 1
    n_covered = (n_rows - 1) * config.frequency_stride + side  # no patch has the highest bands above these
    patches = tuple(
        Patch(
            image=0,
            row=row,
            column=column,
            height=side * band_height,
            width=float(side),
            grid_top=(n_bands - n_covered) * band_height,
            row_step=config.frequency_stride * band_height,
            column_step=float(config.time_stride),
            start_seconds=column * config.time_stride * seconds_per_frame,
            end_seconds=(column * config.time_stride + side) * seconds_per_frame,
        )
        for row in reversed(range(n_rows))
        for column in range(n_columns)
    )
    return PictureLayout(images=(picture,), encoder=(patches,), text_patches=())  # the encoder reads one sequence
