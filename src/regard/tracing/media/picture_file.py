"""Reads picture files, and converts pictures to the colours that a model reads."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError, first_paragraph, import_extra, reason, refuse_missing

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's names for pictures of one channel (grey), three channels, and four."""


def pictures_in_file(path: Path, n_most: int | None = None) -> list[Any]:
    """Return the first `n_most` pictures in a file (None = all) as images of Pillow; a moving picture has several.

    A photograph is turned upright, if the file says how the camera was held (in its EXIF data).
    """
    pillow, sequence = import_extra("PIL.Image", "huggingface"), import_extra("PIL.ImageSequence", "huggingface")
    upright = import_extra("PIL.ImageOps", "huggingface").exif_transpose
    try:
        refuse_missing(path)
        with pillow.open(path) as picture:
            return [upright(frame) for frame in islice(sequence.Iterator(picture), n_most)]
    except InputError:
        raise
    except (IsADirectoryError, PermissionError) as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name another file.") from error
    except Exception as error:  # Pillow raises exceptions of many classes for damaged files
        raise InputError(f"cannot read the picture {path}: {first_paragraph(error)}.") from error


def with_channels(picture: Any, n_channels: int) -> Any:
    """Return a picture of Pillow with as many channels as a model reads; other numbers than in MODES: as it is.

    Where the channel of transparency is dropped, a transparent pixel has the colour that is stored for it.
    """
    if n_channels not in MODES:
        return picture
    if picture.mode in ("I", "F"):
        raise InputError(
            f"a picture has 32 bits for each shade of grey (mode {picture.mode}), so it is not known which numbers are "
            "black and white; give it with 8 or 16 bits."
        )
    if picture.mode.startswith("I;16"):  # Pillow's own conversion makes every shade above 255 white
        shades = np.asarray(picture).astype(np.float32) / 257
        picture = import_extra("PIL.Image", "huggingface").fromarray(shades.round().astype(np.uint8))
    return picture.convert(MODES[n_channels])
