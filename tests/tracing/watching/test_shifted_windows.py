"""Tests of traces of Swin: its windows as one pattern over the patches, against eager attention, window by window."""

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refusal
from torch.testing import assert_close
from transformers import (
    DonutSwinConfig,
    DonutSwinModel,
    SwinConfig,
    SwinModel,
    Swinv2Config,
    Swinv2Model,
    ViTImageProcessorPil,
)

import regard
from regard import Ask, InputError
from regard.tracing.tokens.places import Patch

PICTURE, OTHER = (
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (32, 64, 3), dtype=np.uint8)) for seed in (0, 1)
)
PROCESSOR = ViTImageProcessorPil(size={"height": 32, "width": 64})


def made(kind=SwinModel, config=SwinConfig, **changes):
    """A model with windows of 4 × 4 patches, 8 × 16 patches in its first stage and 4 × 8 in its second."""
    torch.manual_seed(0)
    sizes = {"image_size": (32, 64), "patch_size": 4, "embed_dim": 12, "depths": [2, 2], "num_heads": [2, 4]}
    model = kind(config(**sizes | {"window_size": 4} | changes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "logit_scale" not in name:
                parameter.normal_(std=0.3)
    return model.eval()


def window_by_window(model, pictures):
    """The eager weights [windows heads 16 16] of each call of the attention's softmax, in the order of the layers."""
    model.set_attn_implementation("eager")
    found, softmax = [], torch.nn.functional.softmax

    def noted(*args, **options):
        found.append(softmax(*args, **options))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch.nn.functional, "softmax", noted)
        model(PROCESSOR(images=pictures, return_tensors="pt")["pixel_values"])
    return found


def in_rows(windows, rows, columns, shift):
    """The weights of all windows as one matrix over the patches of one picture, row by row, worked out in a loop."""
    whole = torch.zeros(windows.shape[1], rows * columns, rows * columns)

    def position(window, token):
        row, column = window // (columns // 4) * 4 + token // 4, window % (columns // 4) * 4 + token % 4
        return (row + shift) % rows * columns + (column + shift) % columns

    for window, weights in enumerate(windows):
        for query in range(16):
            for key in range(16):
                whole[:, position(window, query), position(window, key)] = weights[:, query, key]
    return whole


@pytest.mark.parametrize(
    ("kind", "config"), [(SwinModel, SwinConfig), (DonutSwinModel, DonutSwinConfig), (Swinv2Model, Swinv2Config)]
)
def test_windows_are_one_pattern_over_the_patches(kind, config):
    expected = window_by_window(made(kind, config), [PICTURE, OTHER])
    for layers, (rows, columns) in (((0, 1), (8, 16)), ((2, 3), (4, 8))):
        trace = regard.trace(made(kind, config), images=[PICTURE, OTHER], processor=PROCESSOR, layers=layers)
        assert sorted(trace.encoder) == list(layers)
        for layer in layers:
            shift = 2 if layer == 1 else 0  # four rows of patches have room for one row of windows
            both = [in_rows(half, rows, columns, shift) for half in expected[layer].chunk(2)]
            blocks = torch.stack([torch.block_diag(*pair) for pair in zip(*both, strict=True)])[None]
            assert_close(trace.encoder[layer].dense(), blocks, rtol=1e-4, atol=1e-5)
        assert trace.check().max_error < 1e-4
        assert [token.place for token in trace.tokens] == [
            Patch(image, row, column, 32 / rows, 64 / columns)
            for image in range(2)
            for row in range(rows)
            for column in range(columns)
        ]


def test_a_patch_of_the_picture_is_where_the_trace_says():
    changed = np.array(PICTURE)
    changed[20:24, 36:40] = 255 - changed[20:24, 36:40]
    one, other = (
        regard.trace(made(), images=image, processor=PROCESSOR, layers=[0, 1])
        for image in (PICTURE, Image.fromarray(changed))
    )
    moved = (one.encoder[0].query - other.encoder[0].query).abs().amax(dim=(0, 1, 3)) > 1e-6
    assert [one.tokens[i].text for i in moved.nonzero()[:, 0].tolist()] == ["5,9"]


def test_a_trace_of_windows_is_saved_and_drawn(tmp_path):
    trace = regard.trace(made(), images=PICTURE, processor=PROCESSOR, layers=[0, 1])
    loaded = regard.Trace.load(trace.save(tmp_path / "windows.safetensors"))
    assert torch.equal(loaded.encoder[1].dense(), trace.encoder[1].dense())
    drawn = trace.figure(tmp_path / "windows.svg", token="5,9", head="L1H0").read_text()
    assert all(f'id="{name}"' in drawn for name in ("image", "weights", "query"))


def test_layers_of_several_sizes_and_vectors_and_statistics_of_windows_are_refused():
    assert refusal(InputError, regard.trace, made(), images=PICTURE, processor=PROCESSOR) == (
        "SwinModel merges patches from layer to layer (8 × 16 in layers 0 to 1, 4 × 8 in layers 2 to 3), and the "
        "layers of a trace have the same tokens; choose layers of one size, such as layers=[0, 1]."
    )
    options = {"images": PICTURE, "processor": PROCESSOR, "layers": [2, 3], "keep": ("hidden",)}
    assert refusal(InputError, regard.trace, made(), **options) == (
        "the vectors of the layers of SwinModel cannot be kept: its attention is computed in windows; trace without "
        "keep=…."
    )
    options = {"images": PICTURE, "processor": PROCESSOR, "layers": [2, 3], "ask": Ask()}
    assert refusal(InputError, regard.trace, made(), **options) == (
        "ask=… keeps statistics of each window apart, and a trace needs them over all tokens; leave ask=… out, with "
        "layers=[…] if memory is short."
    )


def test_padding_and_pictures_of_another_size_are_refused():
    def read(model, processor=PROCESSOR):
        regard.trace(model, images=PICTURE, processor=processor, layers=[0])

    assert refusal(InputError, read, made(window_size=3)) == (
        "encoder.layers.0.blocks.0.attention divides 8 × 16 patches into windows of 3 × 3, with padding that is no "
        "part of the picture; regard.watching(model) records the attention without tokens."
    )
    wide = ViTImageProcessorPil(size={"height": 32, "width": 80})
    assert refusal(InputError, read, made(), wide) == (
        "the attention of 10 windows of 16 patches does not fit a picture of 8 × 16 patches; regard.watching(model) "
        "records the attention without tokens."
    )
