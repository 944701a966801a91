"""The spectrogram that CLAP reads as a picture, and the place of each patch in it.

CLAP's audio encoder is a Swin Transformer (HTS-AT). It cuts the spectrogram [bands frames] into time spans ("parts"),
and puts them below each other. They form a square, which is divided into patches and windows:

    row of the square = part · (rows of patches in a part) + row in the part, the lowest bands first

In the trace, the picture is the whole spectrogram, the highest bands at the top; rows are counted from the top.

Source: Chen et al. 2022, "HTS-AT: a hierarchical token-semantic audio transformer", section 3.1.
"""

import math
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from regard.tracing.media.media import Grids, Tokens, patch_token, shades_of
from regard.tracing.media.picture_layout import PADDING
from regard.tracing.tokens.places import PatchGrid


def spectrogram_picture(spectrogram: Float[Tensor, "bands frames"]) -> Float[Tensor, "3 rows frames"]:
    """Return a spectrogram as a grey picture, the highest band at the top, at least a quarter as high as it is wide."""
    bands, frames = spectrogram.shape
    rows_per_band = math.ceil(frames / (4 * bands))
    rows = spectrogram.flip(0).repeat_interleave(rows_per_band, dim=0)
    return shades_of(rows.expand(3, -1, -1))


def folded_tokens(
    picture: Float[Tensor, "3 rows frames"],
    n_parts: int,
    seconds: float,
    n_sequences: int,
    n_tokens: int,
    grids: Grids | None,
) -> Tokens:
    """Return the tokens of one layer of CLAP's audio encoder, row by row of the square that the spectrogram becomes.

    The square consists of `n_parts` time spans of the spectrogram, below each other, `seconds` long together.
    `grids` is the grid of patches in the square, without and with the padding that fills its windows. `n_sequences` and
    `n_tokens` are not used, but every `Media.source_of` gets them.
    """
    assert grids is not None
    (rows, columns), (padded_rows, padded_columns) = grids
    rows_in_part, n_columns = rows // n_parts, n_parts * columns
    grid = PatchGrid(image=0, rows=rows_in_part, columns=n_columns, height=picture.shape[1], width=picture.shape[2])
    tokens = []
    for row in range(padded_rows):
        for column in range(padded_columns):
            if row >= rows or column >= columns:
                tokens.append(patch_token(PADDING))
                continue
            part, row_from_below = divmod(row, rows_in_part)
            row_from_above = rows_in_part - 1 - row_from_below
            patch = grid.patch(row_from_above, part * columns + column)
            start, end = patch.column * seconds / n_columns, (patch.column + 1) * seconds / n_columns
            timed_patch = replace(patch, start_seconds=start, end_seconds=end)
            tokens.append(patch_token(timed_patch))
    return tuple(tokens)
