"""The places of tokens in pictures, for models that divide each picture into one grid of patches.

`merged_patches.py` is for models that merge squares of patches, and `tiles.py` for models that cut pictures into tiles.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.tracing.tokens.places import Patch, PatchGrid

PADDING = "[PADDING]"
"""The text of a token that a vision model adds to fill a window or a sequence; the text does not attend to it."""

LATENT_CONFIGS = ("qformer_config", "perceiver_config")
"""The names of the configurations of a Q-Former or Perceiver: its output vectors stand for no part of a picture."""


@dataclass(frozen=True, slots=True, eq=False)
class PictureLayout:
    """Pictures as a model reads them, and the part of a picture that each token of the model stands for.

    Attributes:
        images: the pictures; the number of channels, and the range of the numbers, depend on the processor.
        encoder: for each sequence that the vision model reads (a picture, a part of one, or all pictures), the patch of
            each token; for a token without a patch, the token's text, such as "[PADDING]".
        text_patches: for each image token of the text, its patch; "[NEWLINE]" for one that ends a row of patches.
    """

    images: tuple[Float[Tensor, "_ _ _"], ...]
    encoder: tuple[tuple[Patch | str, ...], ...]
    text_patches: tuple[Patch | str, ...]


def whole_pictures(
    config: Any, encoded: Mapping[str, Tensor], patch_sides: tuple[int, int], n_image_tokens: int
) -> PictureLayout:
    """Return the `PictureLayout` for a model that divides each picture into one grid of patches, without tiles.

    `patch_sides` are the height and the width of a patch in pixels. `n_image_tokens` is the number of tokens in the
    text that stand for parts of pictures. After the patches of a picture, YOLOS reads one token for each object that it
    may detect.
    """
    pixels, (patch_height, patch_width) = encoded["pixel_values"], patch_sides
    sizes = encoded["image_sizes"].tolist() if "image_sizes" in encoded else [list(pixels.shape[2:])] * len(pixels)
    grids = [
        PatchGrid(
            image=number, rows=height // patch_height, columns=width // patch_width,
            height=height // patch_height * patch_height, width=width // patch_width * patch_width,
        )
        for number, (height, width) in enumerate(sizes)
    ]  # fmt: skip
    detections = [f"[DETECTION {number}]" for number in range(getattr(config, "num_detection_tokens", 0))]
    return PictureLayout(
        images=tuple(image[:, :height, :width] for image, (height, width) in zip(pixels, sizes, strict=True)),
        encoder=tuple((*grid.patches(), *detections) for grid in grids),
        text_patches=tuple(patch for grid in text_grids(config, grids, n_image_tokens) for patch in grid.patches()),
    )


def tubelets(
    frames: Float[Tensor, "frames channels height width"], patch_sides: tuple[int, int], n_merged: int
) -> PictureLayout:
    """Return the `PictureLayout` for a model such as VideoMAE, whose patches ("tubelets") have `n_merged` frames.

    The model reads all patches of a video as one sequence: those of the first frames come first, row by row.
    """
    patch_height, patch_width = patch_sides
    rows, columns = frames.shape[2] // patch_height, frames.shape[3] // patch_width
    patches = list[Patch]()
    for first in range(0, len(frames) - n_merged + 1, n_merged):
        patches += PatchGrid(
            image=first, rows=rows, columns=columns, height=rows * patch_height, width=columns * patch_width,
            n_images=n_merged,
        ).patches()  # fmt: skip
    return PictureLayout(images=tuple(frames), encoder=(tuple(patches),), text_patches=())


def with_grid(layout: PictureLayout, grid: tuple[int, int], padded: tuple[int, int], patch_size: int) -> PictureLayout:
    """Return a copy of a layout with a coarser grid of patches, for a layer of a model such as Swin.

    Such a model merges 2 × 2 patches into one from stage to stage. `grid` is (rows, columns) of patches in this layer;
    `padded` also counts the padding at the right and the bottom. `patch_size` is the side length of a patch in the
    first layer, in pixels. A patch may extend beyond the picture, at the right or the bottom.
    """
    (rows, columns), (padded_rows, padded_columns) = grid, padded
    height, width = layout.images[0].shape[1:]
    side = patch_size
    while side <= max(height, width):  # a side above both lengths is kept if no side gives the grid
        if (math.ceil(height / side), math.ceil(width / side)) == grid:
            break
        side *= 2
    places = [(row, column) for row in range(padded_rows) for column in range(padded_columns)]
    encoder = []
    for number in range(len(layout.images)):
        picture = PatchGrid(image=number, rows=rows, columns=columns, height=rows * side, width=columns * side)
        patches = [picture.patch(row, column) if row < rows and column < columns else PADDING for row, column in places]
        encoder.append(tuple(patches))
    return replace(layout, encoder=tuple(encoder))


def with_seconds(layout: PictureLayout, fps: float, n_frames: int) -> PictureLayout:
    """Return a copy of the layout of a video of `n_frames` frames in which each patch has the time of its frames.

    The layout may have more frames, since a model that reads several frames at a time may repeat the last one.
    """
    if len(layout.images) < n_frames:
        raise InputError(
            f"the processor reads {len(layout.images)} of the {n_frames} frames, so their times are not known; leave "
            "fps=… out, or give these frames alone."
        )

    def with_time(patch: Patch | str) -> Patch | str:
        if isinstance(patch, str):
            return patch
        end = min(patch.image + patch.n_images, n_frames) / fps
        return replace(patch, start_seconds=patch.image / fps, end_seconds=end)

    encoder = tuple(tuple(with_time(patch) for patch in patches) for patches in layout.encoder)
    return replace(layout, encoder=encoder, text_patches=tuple(with_time(patch) for patch in layout.text_patches))


def text_grids(config: Any, grids: Sequence[PatchGrid], n_image_tokens: int) -> list[PatchGrid]:
    """Return, for each picture, the grid that its tokens form in the text: the grid of patches, or a coarser grid.

    `n_image_tokens` is the number of image tokens for all pictures together; 0 = there is no text.
    """
    if n_image_tokens == 0:
        return []
    n_patches = sum(grid.rows * grid.columns for grid in grids)
    if n_image_tokens <= n_patches and not any(hasattr(config, name) for name in LATENT_CONFIGS):
        # one way of merging: factor × factor patches into one token
        factor = math.isqrt(n_patches // n_image_tokens)
        has_whole_squares = all(grid.rows % factor == grid.columns % factor == 0 for grid in grids)
        if n_image_tokens * factor**2 == n_patches and has_whole_squares:
            return [replace(grid, rows=grid.rows // factor, columns=grid.columns // factor) for grid in grids]
        # the other: all patches of a square picture into side × side tokens (one factor for rows and columns)
        side = math.isqrt(n_image_tokens // len(grids))
        if len(grids) * side**2 == n_image_tokens and all(grid.rows == grid.columns for grid in grids):
            return [replace(grid, rows=side, columns=side) for grid in grids]
    patches = " and ".join(f"{grid.rows} × {grid.columns}" for grid in grids)
    raise InputError(
        f"the text has {n_image_tokens} tokens for {patches} patches, which do not form a grid; "
        "regard.watching(model) records the attention without tokens."
    )
