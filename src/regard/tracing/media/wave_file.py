"""Reads WAV files whose samples are integers of 8, 16, 24 or 32 bits, or floating-point numbers.

Source: Microsoft & IBM 1991, "Multimedia programming interface and data specifications 1.0", chapter 3.
"""

import struct
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from regard.errors import InputError, reason, refuse_missing

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
"""The numbers for samples that are integers or floating-point numbers, and for a header that says it further below."""

KINDS = {(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)}
"""The kinds of samples that are read, with their bits per sample."""


def read_wave(path: Path) -> tuple[Float[np.ndarray, " samples"], int]:
    """Read a WAV file; return the samples (the mean of all channels, -1 to 1) and the samples per second."""
    advice = "write it as one with: ffmpeg -i FILE -ac 1 -ar 16000 -sample_fmt s16 speech.wav"
    try:
        refuse_missing(path)
        chunks = chunks_of(path.read_bytes())
        header, data = chunks[b"fmt "], chunks[b"data"]
        kind, n_channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", header)
        if kind == EXTENSIBLE:
            (kind,) = struct.unpack_from("<H", header, offset=24)
        if (kind, bits) not in KINDS:
            raise InputError(
                f"{path} has samples of {bits} bits in format {kind}, which regard does not read; {advice}."
            )
        sample_bytes = np.frombuffer(data, dtype=np.uint8).reshape(-1, n_channels, bits // 8)
    except InputError:  # also a ValueError, which the last `except` would replace
        raise
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name another file.") from error
    except (KeyError, ValueError, struct.error) as error:  # a chunk is missing, or shorter than it should be
        raise InputError(f"{path} is not a WAV file; {advice}.") from error
    return numbers_of(sample_bytes, kind).mean(axis=1), rate


def chunks_of(content: bytes) -> dict[bytes, bytes]:
    """Return the parts of a WAV file, by their names of four letters."""
    riff, _, form = struct.unpack_from("<4sI4s", content)
    if (riff, form) != (b"RIFF", b"WAVE"):
        raise ValueError("the file does not begin like a WAV file.")
    chunks, position = dict[bytes, bytes](), 12
    while position + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, position)
        chunks[name] = content[position + 8 : position + 8 + size]
        position += 8 + size + size % 2  # a chunk of odd size is followed by one more byte
    return chunks


def numbers_of(
    sample_bytes: UInt8[np.ndarray, "samples channels bytes"], kind: int
) -> Float[np.ndarray, "samples channels"]:
    n_bytes = sample_bytes.shape[-1]
    if kind == FLOAT:
        return sample_bytes.view(f"<f{n_bytes}")[..., 0].astype(np.float32)
    if n_bytes == 1:  # integers of 8 bits are the only ones without a sign
        return (sample_bytes[..., 0].astype(np.float32) - 128) / 128
    as_32_bits = np.zeros((*sample_bytes.shape[:-1], 4), dtype=np.uint8)
    as_32_bits[..., 4 - n_bytes :] = sample_bytes
    return as_32_bits.view("<i4")[..., 0].astype(np.float32) / 2**31
