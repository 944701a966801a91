"""Tests of WAV files: samples of every width, in integers and in floating-point numbers."""

import struct
import wave

import numpy as np
import pytest
from refusals import refusal

from regard import InputError
from regard.tracing.media.wave_file import EXTENSIBLE, FLOAT, PCM, read_wave

SAMPLES = np.random.default_rng(0).uniform(-1, 1, (101, 2))
ADVICE = "write it as one with: ffmpeg -i FILE -ac 1 -ar 16000 -sample_fmt s16 speech.wav."


def wave_bytes(data, kind, bits, n_channels=2, rate=8_000, before=b""):
    """The bytes of a WAV file with the samples `data`; `before` are chunks before them."""
    frame = n_channels * bits // 8
    fields = struct.pack("<HHIIHH", abs(kind), n_channels, rate, rate * frame, frame, bits)
    if kind < 0:  # the kind is named in an extensible header
        fields = struct.pack("<H", EXTENSIBLE) + fields[2:]
        fields += struct.pack("<HHIH", 22, bits, 3, -kind) + bytes.fromhex("000000001000800000aa00389b71")
    body = b"WAVEfmt " + struct.pack("<I", len(fields)) + fields + before
    body += b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def integers(bits):
    """The samples as bytes of integers, and the integers as numbers from -1 to 1."""
    numbers = np.round(SAMPLES * (2 ** (bits - 1) - 1)).astype(np.int64)
    bytes_of_each = (number.to_bytes(bits // 8, "little", signed=True) for number in numbers.ravel().tolist())
    if bits == 8:
        bytes_of_each = (bytes([number + 128]) for number in numbers.ravel().tolist())
    return b"".join(bytes_of_each), numbers / 2 ** (bits - 1)


@pytest.mark.parametrize("kind", [PCM, -PCM])
@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_integers_of_every_width_are_read(tmp_path, bits, kind):
    data, expected = integers(bits)
    (tmp_path / "speech.wav").write_bytes(wave_bytes(data, kind, bits))
    numbers, rate = read_wave(tmp_path / "speech.wav")
    assert (rate, numbers.dtype) == (8_000, np.float32)
    np.testing.assert_allclose(numbers, expected.mean(axis=1), atol=2**-24)
    if kind == PCM:  # a reader of another library
        with wave.open(str(tmp_path / "speech.wav")) as file:
            assert (file.getsampwidth() * 8, file.getnframes(), file.getnchannels()) == (bits, 101, 2)


@pytest.mark.parametrize("kind", [FLOAT, -FLOAT])
@pytest.mark.parametrize("bits", [32, 64])
def test_floating_point_numbers_are_read(tmp_path, bits, kind):
    data = SAMPLES.astype(f"<f{bits // 8}")
    (tmp_path / "speech.wav").write_bytes(wave_bytes(data.tobytes(), kind, bits))
    numbers, _ = read_wave(tmp_path / "speech.wav")
    np.testing.assert_allclose(numbers, SAMPLES.mean(axis=1), atol=2**-22)


def test_other_chunks_are_skipped_also_those_of_odd_length(tmp_path):
    data, expected = integers(16)
    (tmp_path / "speech.wav").write_bytes(wave_bytes(data, PCM, 16, before=b"LIST\x03\0\0\0abc\0"))
    np.testing.assert_allclose(read_wave(tmp_path / "speech.wav")[0], expected.mean(axis=1), atol=2**-24)


def test_samples_of_another_kind_are_refused_by_their_format(tmp_path):
    path = tmp_path / "telephone.wav"
    path.write_bytes(wave_bytes(b"\0" * 20, 7, 8))  # mu-law
    assert refusal(InputError, read_wave, path) == (
        f"{path} has samples of 8 bits in format 7, which regard does not read; {ADVICE}"
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"RIFF", b"RIFF\0\0\0\0WAVX" + b"\0" * 40, wave_bytes(b"\0" * 7, PCM, 16), wave_bytes(b"", PCM, 16, 0)],
)
def test_what_is_no_wave_file_is_refused(tmp_path, content):
    path = tmp_path / "speech.wav"
    path.write_bytes(content)
    assert refusal(InputError, read_wave, path) == f"{path} is not a WAV file; {ADVICE}"
