"""The part of a picture or a recording that a token stands for: a patch or a frame."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class Patch:
    """A patch: the rectangle of a picture, or of frames of a video, that one token stands for.

    Attributes:
        image: the number of the picture, counted from 0. For a video, it is the number of a frame: of the first frame
            that the token stands for.
        row, column: the row and the column of the patch in the grid of patches, counted from the top left.
        height, width: the size of the patch, in pixels of the picture that the model reads.
        n_images: the number of successive frames that the token stands for; 1 for pictures.
        thumbnail: whether the patch is in a small copy of the whole picture, which the model reads besides the picture
            itself. `height` and `width` are then counted in pixels of the picture, not of the small copy.
        grid_top, grid_left: the distances in pixels of the grid of patches from the top and the left of the picture.
            They are above 0 if the picture has margins that the grid does not cover.
        row_step, column_step: how many pixels lower the next row of patches begins, and how many pixels further right
            the next column. They are less than `height` and `width` if patches overlap; None = equal to `height` and
            `width`.
        start_seconds, end_seconds: when the first of the frames begins, and when the last one ends; None for pictures,
            and for a video whose frames per second are not known.
    """

    image: int
    row: int
    column: int
    height: float
    width: float
    n_images: int = 1
    thumbnail: bool = False
    grid_top: float = 0.0
    grid_left: float = 0.0
    row_step: float | None = None
    column_step: float | None = None
    start_seconds: float | None = None
    end_seconds: float | None = None

    @property
    def top(self) -> float:
        return self.grid_top + self.row * (self.row_step or self.height)

    @property
    def left(self) -> float:
        return self.grid_left + self.column * (self.column_step or self.width)

    @property
    def cell(self) -> tuple[float, float, float, float]:
        """(top, left, height, width) of the area to colour: the whole patch, or its middle if patches overlap."""
        height, width = self.row_step or self.height, self.column_step or self.width
        return self.top + (self.height - height) / 2, self.left + (self.width - width) / 2, height, width

    def __repr__(self) -> str:
        # imported here, not at the top of the file, so that `regard explain` starts without importing torch
        from regard.attention.representation import describe

        return describe(self)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: the part of a recording that one token stands for.

    Attributes:
        start_seconds, end_seconds: the time of the frame, from the beginning of the recording.
        recorded: whether the frame is a part of the recording; False = the frame is in the silence after its end, up
            to the fixed length that a model such as Whisper reads.
    """

    start_seconds: float
    end_seconds: float
    recorded: bool = True


Place = Patch | Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchGrid:
    """The grid of patches into which a picture is divided.

    `height` and `width` are the size of the whole grid, `top` and `left` its distances from the top and the left of the
    picture, in pixels. All patches have its `image`, `n_images` and `thumbnail` (see `Patch`).
    """

    image: int
    rows: int
    columns: int
    height: int
    width: int
    n_images: int = 1
    thumbnail: bool = False
    top: int = 0
    left: int = 0

    def patch(self, row: int, column: int) -> Patch:
        return Patch(
            image=self.image,
            row=row,
            column=column,
            height=self.height / self.rows,
            width=self.width / self.columns,
            n_images=self.n_images,
            thumbnail=self.thumbnail,
            grid_top=float(self.top),
            grid_left=float(self.left),
        )

    def patches(self, rows: range | None = None, columns: range | None = None) -> list[Patch]:
        """Return the patches in some rows and columns of the grid (None = all), row by row."""
        rows = range(self.rows) if rows is None else rows
        columns = range(self.columns) if columns is None else columns
        return [self.patch(row, column) for row in rows for column in columns]
