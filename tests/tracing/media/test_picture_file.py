"""Tests of pictures as files and as images of Pillow, in all their colour modes."""

import re

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from random_models import VISION, sharp
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import InputError
from regard.tracing.media.picture_file import pictures_in_file, with_channels

COLOURS = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
PICTURE = Image.fromarray(COLOURS)
SIDES = {"height": 48, "width": 64}


@pytest.fixture(scope="module")
def vit():
    return sharp(transformers.ViTModel(transformers.ViTConfig(**VISION, image_size=(48, 64), patch_size=16)))


@pytest.fixture(scope="module")
def seen(vit):
    """A function that gives the picture as the model read it."""
    processor = transformers.ViTImageProcessorPil(size=SIDES)
    return lambda picture: regard.trace(vit, images=picture, processor=processor).images[0]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_turned_upright_as_transformers_does(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    PICTURE.save(tmp_path / "photo.png", exif=exif)
    (picture,) = pictures_in_file(tmp_path / "photo.png")
    expected = np.asarray(transformers.image_utils.load_image(str(tmp_path / "photo.png")))
    assert np.array_equal(np.asarray(with_channels(picture, 3)), expected)
    assert picture.size == ((64, 48) if orientation < 5 else (48, 64))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_shades_of_16_bits_are_those_of_8_bits(tmp_path, suffix):
    """Pillow's own conversion makes all shades above 255 of 65535 white."""
    shades = np.arange(256, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(shades * 257).save(tmp_path / f"grey.{suffix}")
    (picture,) = pictures_in_file(tmp_path / f"grey.{suffix}")
    assert np.array_equal(np.asarray(with_channels(picture, 3)), np.repeat(shades[..., None], 3, axis=2))


@pytest.mark.parametrize("mode", ["L", "1", "LA", "P", "RGBA", "CMYK", "YCbCr", "HSV"])
def test_a_picture_of_any_mode_is_read_in_colours(seen, mode):
    assert torch.equal(seen(PICTURE.convert(mode)), seen(PICTURE.convert(mode).convert("RGB")))


@pytest.mark.parametrize("colour", [(0, 0, 0), (200, 30, 90), (128, 128, 128), (255, 255, 255)])
def test_a_picture_is_shown_in_its_own_colours(seen, colour):
    """Stretched to its darkest and brightest number, a picture of one colour would be black."""
    picture = Image.new("RGB", (64, 48), colour)
    picture.putpixel((3, 5), tuple(min(part + 4, 255) for part in colour))
    expected = torch.tensor(np.asarray(picture)).permute(2, 0, 1) / 255
    assert_close(seen(picture), expected, rtol=0, atol=1e-6)


def test_a_path_is_read_in_a_list_and_alone(seen, tmp_path):
    PICTURE.save(tmp_path / "picture.png")
    for given in (tmp_path / "picture.png", str(tmp_path / "picture.png"), [tmp_path / "picture.png"]):
        assert torch.equal(seen(given), seen(PICTURE))
    assert refusal(InputError, seen, tmp_path) == f"cannot read {tmp_path}: is a directory; name another file."


def test_what_is_no_picture_is_refused(seen, tmp_path):
    advice = "so it is not known which numbers are black and white; give it with 8 or 16 bits."
    for mode, kind in (("F", np.float32), ("I", np.int32)):
        picture = Image.fromarray(np.zeros((48, 64), dtype=kind))
        assert refusal(InputError, seen, picture) == (
            f"a picture has 32 bits for each shade of grey (mode {mode}), {advice}"
        )
    assert refusal(InputError, seen, np.zeros((48, 64))) == (
        "a picture has shape [48, 64]; give it as [height width channels], or as an image of Pillow."
    )
    assert refusal(InputError, seen, []) == "images=… is an empty list; give at least one picture."


@pytest.mark.parametrize("n_channels", [1, 4])
def test_a_model_of_other_channels_reads_them_and_its_picture_is_shown_grey(tmp_path, n_channels):
    size = {"image_size": (48, 64), "patch_size": 16, "num_channels": n_channels}
    model = sharp(transformers.ViTModel(transformers.ViTConfig(**VISION, **size)))
    statistics = {"image_mean": [0.5] * n_channels, "image_std": [0.5] * n_channels}
    processor = transformers.ViTImageProcessorPil(size=SIDES, **statistics)
    picture = PICTURE.convert({1: "L", 4: "RGBA"}[n_channels])
    trace = regard.trace(model, images=picture, processor=processor)
    numbers = np.asarray(picture, dtype=np.float32).reshape(48, 64, n_channels).mean(axis=2)
    expected = (numbers - numbers.min()) / (numbers.max() - numbers.min())
    assert trace.images[0].shape == (3, 48, 64)
    for channel in trace.images[0]:
        np.testing.assert_allclose(channel, expected, atol=1e-5)
    loaded = regard.Trace.load(trace.save(tmp_path / "grey.safetensors"))
    assert torch.equal(loaded.images[0], trace.images[0])
    assert re.search(r'id="weights"', trace.figure(tmp_path / "grey.svg").read_text())
