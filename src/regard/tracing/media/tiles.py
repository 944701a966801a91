"""Pictures of models that cut each picture into tiles. Most of them also read a thumbnail: a small copy of the picture.

A trace shows such a picture as its tiles, side by side. The vision model reads each tile alone. The row and column of
a tile's patch are those in the whole picture. A thumbnail's patch has the size of the part of the picture it shows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from regard.tracing.media.picture_layout import PADDING, PictureLayout
from regard.tracing.tokens.places import Patch, PatchGrid

Tiles = Float[Tensor, "tiles 3 height width"]


@dataclass(frozen=True, slots=True)
class TiledPicture:
    """A picture that is cut into rows and columns of tiles, squares that a vision model reads one by one.

    `image` is the number of the picture, from 0; `side` and `patch_size` are the side lengths of a tile and of a patch,
    in pixels.
    """

    image: int
    rows: int
    columns: int
    side: int
    patch_size: int

    def grid(self, merge: int = 1) -> PatchGrid:
        """Return the grid of the whole picture; each cell is one patch, or a square of merge × merge patches."""
        cells = self.side // self.patch_size // merge
        return PatchGrid(
            image=self.image, rows=self.rows * cells, columns=self.columns * cells,
            height=self.rows * self.side, width=self.columns * self.side,
        )  # fmt: skip

    def tiles(self, merge: int = 1) -> list[tuple[Patch, ...]]:
        """Return, for each tile of the picture, its patches or its squares of merge × merge patches, row by row."""
        cells, grid = self.side // self.patch_size // merge, self.grid(merge)
        return [
            tuple(grid.patches(range(row * cells, (row + 1) * cells), range(column * cells, (column + 1) * cells)))
            for row in range(self.rows)
            for column in range(self.columns)
        ]

    def thumbnail(self, merge: int = 1, margin: tuple[int, int] = (0, 0)) -> tuple[Patch, ...]:
        """Return the patches, or squares of merge × merge patches, of the thumbnail: a copy of the picture in one tile.

        The rows and columns of tiles may include margins around the picture, which the thumbnail leaves out. `margin`
        is the height of the margin above (and below) the picture, and the width of the margin beside it, in pixels.
        """
        cells, (top, left) = self.side // self.patch_size // merge, margin
        grid = PatchGrid(
            image=self.image, rows=cells, columns=cells, thumbnail=True, top=top, left=left,
            height=self.rows * self.side - 2 * top, width=self.columns * self.side - 2 * left,
        )  # fmt: skip
        return tuple(grid.patches())

    def tiles_and_thumbnail(self, merge: int, thumbnail_first: bool) -> list[tuple[Patch, ...]]:
        """Return the patches, or squares, of each tile and of the thumbnail; a picture of one tile has no thumbnail."""
        tiles = self.tiles(merge)
        if len(tiles) == 1:
            return tiles
        thumbnail = self.thumbnail(merge)
        return [thumbnail, *tiles] if thumbnail_first else [*tiles, thumbnail]

    def joined(self, tiles: Tiles) -> Float[Tensor, "3 all_rows all_columns"]:
        """Return the whole picture, put together from its tiles; `tiles` has them row by row."""
        return rearrange(tiles, "(rows columns) c h w -> c (rows h) (columns w)", rows=self.rows)


def tiles_in_turn(
    pixels: Tiles, shapes: Sequence[tuple[int, int]], patch_size: int, n_image_tokens: int, thumbnail_first: bool
) -> PictureLayout:
    """Return the `PictureLayout` for models such as InternVL, whose text has the tiles one after another, row by row.

    A picture of more than one tile also has a thumbnail, before its tiles or after them. `pixels` are the tiles and
    thumbnails of all pictures; `shapes` are the rows and columns of tiles of each picture. Each of the `n_image_tokens`
    of the text stands for a square of patches.
    """
    side = pixels.shape[-1]
    n_patches, merge = len(pixels) * (side // patch_size) ** 2, 1
    if 0 < n_image_tokens < n_patches:  # `read_pictures` refuses more image tokens than patches
        merge = math.isqrt(n_patches // n_image_tokens)
    images, patches_of_tiles, squares_of_tiles = list[Tensor](), list[tuple[Patch, ...]](), list[tuple[Patch, ...]]()
    for number, (rows, columns) in enumerate(shapes):
        picture, n_tiles = TiledPicture(number, rows, columns, side, patch_size), rows * columns
        first_tile = len(patches_of_tiles)
        if thumbnail_first and n_tiles > 1:
            first_tile += 1
        images.append(picture.joined(pixels[first_tile : first_tile + n_tiles]))
        patches_of_tiles += picture.tiles_and_thumbnail(1, thumbnail_first)
        squares_of_tiles += picture.tiles_and_thumbnail(merge, thumbnail_first)
    text_patches = tuple(square for squares in squares_of_tiles for square in squares) if n_image_tokens else ()
    return PictureLayout(tuple(images), tuple(patches_of_tiles), text_patches)


def tile_shapes(processor: Any, pictures: Sequence[Any], pixels: Tensor) -> list[tuple[int, int]] | None:
    """Return the rows and columns of tiles into which a processor cuts each picture; None if not known.

    `pixels` is the tensor of tiles that the processor made of the pictures.
    """
    image_processor = getattr(processor, "image_processor", processor)
    if pixels.ndim == 5 and hasattr(image_processor, "return_row_col_info"):
        info = image_processor(images=list(pictures), return_row_col_info=True)
        all_rows, all_columns = info["rows"][0], info["cols"][0]  # [0]: of the first and only item of the batch
        # 0 rows = the picture is not cut
        return [(rows or 1, columns or 1) for rows, columns in zip(all_rows, all_columns, strict=True)]
    shapes = None
    if pixels.ndim == 4 and getattr(image_processor, "crop_to_patches", None) is not None:
        shapes = canvas_shapes(image_processor, pictures, pixels.shape[-1])
    elif pixels.ndim == 4 and len(pixels) > len(pictures) and hasattr(image_processor, "do_pan_and_scan"):
        # with as many tiles as pictures, Gemma 3 has cut no picture, and `whole_pictures` gives the layout
        shapes = crop_shapes(processor, pictures)
    n_tiles = [rows * columns for rows, columns in shapes or ()]
    n_expected = sum(n if n == 1 else n + 1 for n in n_tiles)  # a picture that is cut also has a thumbnail
    return shapes if n_expected == len(pixels) else None


def canvas_shapes(image_processor: Any, pictures: Sequence[Any], side: int) -> list[tuple[int, int]]:
    """Return the rows and columns of tiles into which a processor such as InternVL's cuts each picture.

    The ratio rows : columns is nearest to the picture's ratio height : width. `side` is the side length of a tile in
    pixels.
    """
    from transformers.image_utils import get_image_size, to_numpy_array

    choose = import_module(type(image_processor).__module__).get_optimal_tiled_canvas
    limits = image_processor.min_patches, image_processor.max_patches
    sizes = [get_image_size(to_numpy_array(picture)) for picture in pictures]
    canvases = [choose(size, (side, side), *limits) for size in sizes]
    return [(rows, columns) for columns, rows in canvases]


def crop_shapes(processor: Any, pictures: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the rows and columns into which Gemma 3's "pan and scan" cuts each picture; (1, 1) = it is not cut.

    A picture that is much wider than high is cut into columns, and one that is much higher than wide into rows.
    """
    from transformers.image_utils import get_image_size, to_numpy_array

    encoded = processor.image_processor(images=list(pictures), **processor.images_kwargs)
    sizes = [get_image_size(to_numpy_array(picture)) for picture in pictures]
    counts = [max(1, int(count)) for count in encoded["num_crops"]]
    return [(1, n) if width >= height else (n, 1) for n, (height, width) in zip(counts, sizes, strict=True)]


def anyres_layout(config: Any, encoded: Mapping[str, Any], patch_size: int) -> PictureLayout:
    """Return the `PictureLayout` for LLaVA-NeXT: the patches of a small copy of the picture, then those of the picture.

    The model cuts the picture into tiles (equal squares). The picture keeps its proportions: it lies in the middle of
    the tiles, between two margins. Patches of the margins have no tokens in the text. A token ends each row of patches.

    LLaVA-OneVision has the same layout, with two differences: if there are several pictures, each becomes one tile. If
    a picture has more patches than config.vision_aspect_ratio allows, they are interpolated to fewer tokens.
    """
    from transformers.image_processing_utils import select_best_resolution

    if any(number > 1 for number in encoded.get("batch_num_images", ())):
        return one_tile_for_each_picture(list(encoded["pixel_values"]), patch_size)
    limit = getattr(config, "vision_aspect_ratio", None)
    most_tiles = None if limit is None else int(limit.removeprefix("anyres_max_"))
    images, encoder, text = list[Tensor](), list[tuple[Patch, ...]](), list[Patch | str]()
    sizes = [(height, width) for height, width in encoded["image_sizes"].tolist()]
    for number, (tiles, size) in enumerate(zip(encoded["pixel_values"], sizes, strict=True)):
        side = tiles.shape[-1]
        height, width = select_best_resolution(size, config.image_grid_pinpoints)
        picture = TiledPicture(number, height // side, width // side, side, patch_size)
        margin = margins(size, (height, width), math.ceil)  # rounded as the processor does
        thumbnail = picture.thumbnail(margin=margin)
        images.append(picture.joined(tiles[1 : 1 + picture.rows * picture.columns]))
        encoder += [thumbnail, *picture.tiles()]
        text += thumbnail
        grid = picture.grid()
        # the model drops the patches of the margins, and rounds as its function `unpad_image` does
        top, left = margins(size, (grid.rows, grid.columns), lambda length: int(round(length, 7)))
        rows, columns = range(top, grid.rows - top), range(left, grid.columns - left)
        n_patches = len(rows) * len(columns)
        # the thumbnail has the patches of one tile; transformers resizes the grid if it has over 1.1² = 1.21 times the
        # allowed number of patches
        shrinkage = 0.0 if most_tiles is None else math.sqrt(n_patches / (most_tiles * len(thumbnail)))
        if shrinkage > 1.1:
            grid = replace(
                grid, rows=int(len(rows) // shrinkage), columns=int(len(columns) // shrinkage), top=top * patch_size,
                left=left * patch_size, height=len(rows) * patch_size, width=len(columns) * patch_size,
            )  # fmt: skip
            rows, columns = range(grid.rows), range(grid.columns)
        for row in rows:
            text += [*grid.patches(range(row, row + 1), columns), "[NEWLINE]"]
    return PictureLayout(tuple(images), tuple(encoder), tuple(text))


def tiles_with_empty_ones(vision_config: Any, encoded: Mapping[str, Tensor], patch_size: int) -> PictureLayout:
    """Return the `PictureLayout` for MLlama, which reads all tiles (equal squares) of a picture as one sequence.

    Empty tiles follow, until the sequence has the model's largest number of tiles. Each tile begins with a class token,
    and ends with padding to a multiple of 8 tokens.
    """
    images, encoder = list[Tensor](), list[tuple[Patch | str, ...]]()
    for number, (tiles, ratio_id) in enumerate(
        zip(encoded["pixel_values"][0], encoded["aspect_ratio_ids"][0].tolist(), strict=True)
    ):
        # ratio_id is at least 1: 0 (no picture) fills up a batch of several texts, and there is only one text here
        rows, columns = vision_config.supported_aspect_ratios[ratio_id - 1]
        picture = TiledPicture(number, rows, columns, tiles.shape[-1], patch_size)
        images.append(picture.joined(tiles[: rows * columns]))
        parts: list[tuple[Patch | str, ...]] = [*picture.tiles()]
        parts += [("[EMPTY]",) * len(parts[0])] * (len(tiles) - len(parts))
        sequence = list[Patch | str]()
        for part in parts:
            n_missing = -(1 + len(part)) % 8  # from the tokens of the tile up to a multiple of 8
            sequence += ["[CLS]", *part, *[PADDING] * n_missing]
        encoder.append(tuple(sequence))
    return PictureLayout(tuple(images), tuple(encoder), ())


def one_tile_for_each_picture(pixels: Sequence[Tiles], patch_size: int) -> PictureLayout:
    """Return the `PictureLayout` for LLaVA-OneVision with several pictures: one tile each, then an end token.

    The processor makes several tiles of each picture; the model reads only the first, which is the whole picture.
    """
    pictures = [TiledPicture(number, 1, 1, tiles.shape[-1], patch_size) for number, tiles in enumerate(pixels)]
    encoder = tuple(picture.tiles()[0] for picture in pictures)
    text = list[Patch | str]()
    for patches in encoder:
        text += [*patches, "[NEWLINE]"]
    return PictureLayout(tuple(tiles[0] for tiles in pixels), encoder, tuple(text))


def margins(size: tuple[int, int], rectangle: tuple[int, int], rounded: Callable[[float], int]) -> tuple[int, int]:
    """Return the height of the margin above a picture, and the width of the margin beside it, in a rectangle.

    The picture is made as large as fits into the rectangle with its proportions kept, and lies in the middle. `size` is
    (height, width) of the picture, `rectangle` of the rectangle; `rounded` rounds the scaled lengths.
    """
    scale = min(rectangle[0] / size[0], rectangle[1] / size[1])
    height, width = (min(rounded(length * scale), limit) for length, limit in zip(size, rectangle, strict=True))
    return (rectangle[0] - height) // 2, (rectangle[1] - width) // 2
