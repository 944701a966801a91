"""Read picture files and WAV files, as the input of a model."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.errors import InputError, first_paragraph, import_extra, reason


def read_picture(path: Path) -> Any:
    """Read a picture file; return the picture as an RGB image of Pillow.

    Raises:
        InputError: the file cannot be read, or is not a picture.
    """
    pillow = import_extra("PIL.Image", "huggingface")
    try:
        with pillow.open(path) as picture:
            return picture.convert("RGB")
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name another file.") from error
    except Exception as error:  # Pillow raises exceptions of many classes for damaged files
        raise InputError(f"cannot read the picture {path}: {first_paragraph(error)}.") from error


def read_wave(path: Path) -> tuple[Float[np.ndarray, " samples"], int]:
    """Read a WAV file.

    Returns:
        The samples, from -1 to 1, as the mean of all channels; and the number of samples per second.

    Raises:
        InputError: the file cannot be read, or is not a WAV file with 16 bits per sample.
    """
    advice = "write it as one with: ffmpeg -i FILE -ac 1 -ar 16000 -sample_fmt s16 speech.wav"
    try:
        with wave.open(str(path), "rb") as file:
            if file.getsampwidth() != 2:
                raise InputError(f"{path} has {8 * file.getsampwidth()} bits per sample and not 16; {advice}.")
            samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").reshape(-1, file.getnchannels())
            return samples.mean(axis=1, dtype=np.float32) / 2**15, file.getframerate()
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name another file.") from error
    except (wave.Error, EOFError, ValueError, RuntimeError) as error:  # wave raises all of these for damaged files
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a WAV file; {advice}.") from error
