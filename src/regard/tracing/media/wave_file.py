"""Reads WAV files."""

import wave
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard.errors import InputError, reason


def read_wave(path: Path) -> tuple[Float[np.ndarray, " samples"], int]:
    """Read a WAV file of 16 bits; return the samples (the mean of all channels, -1 to 1) and the samples per second."""
    advice = "write it as one with: ffmpeg -i FILE -ac 1 -ar 16000 -sample_fmt s16 speech.wav"
    try:
        with wave.open(str(path), "rb") as file:
            if file.getsampwidth() != 2:
                raise InputError(f"{path} has {8 * file.getsampwidth()} bits per sample and not 16; {advice}.")
            samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").reshape(-1, file.getnchannels())
            return samples.mean(axis=1, dtype=np.float32) / 2**15, file.getframerate()
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name another file.") from error
    except (wave.Error, EOFError, ValueError, RuntimeError) as error:  # wave raises one of these for a damaged file
        raise InputError(f"{path} is not a WAV file; {advice}.") from error
