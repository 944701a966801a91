"""Tests of traces of vision models that merge squares of patches into a token, against their eager attention."""

import numpy as np
import pytest
import torch
from refusals import refusal
from torch.testing import assert_close
from transformers import (
    BatchFeature,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
)
from transformers.vision_utils import get_vision_window_index

import regard
from regard import InputError
from regard.tracing.merged_patches import patch_order, picture_of

IMAGE_ID = 150
TEXT = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2} | {
    "intermediate_size": 64, "vocab_size": 30522, "bos_token_id": 101, "eos_token_id": 102,
    "rope_parameters": {"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 10000.0},
}  # fmt: skip
IDS = {"image_token_id": IMAGE_ID, "video_token_id": 151, "vision_start_token_id": 152, "vision_end_token_id": 153}


class Processor:
    """A small processor of pictures and text: the image processor of Qwen2-VL, and MiniLM's tokenizer."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.pictures = Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=168 * 168)

    def __call__(self, images=None, text=None, return_tensors=None):
        encoded = dict(self.pictures(images=images, return_tensors="pt"))
        if text is None:
            return BatchFeature(encoded)
        words = self.tokenizer(text).input_ids
        n_squares = int(encoded["image_grid_thw"].prod(dim=1).sum()) // 4
        ids = torch.tensor([[words[0], 152, *[IMAGE_ID] * n_squares, 153, *words[1:]]])
        types = (ids == IMAGE_ID).int()
        return BatchFeature(
            {**encoded, "input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": types}
        )


def sharp(model):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.1)
    return model.eval()


def qwen2(**options):
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 48, "num_heads": 4, "mlp_ratio": 2}
    config = Qwen2VLConfig(text_config=TEXT, vision_config=vision, **IDS)
    return sharp(Qwen2VLForConditionalGeneration._from_config(config, **options))


def qwen2_5(**options):
    vision = {"depth": 3, "hidden_size": 32, "out_hidden_size": 48, "num_heads": 4, "intermediate_size": 64}
    vision |= {"window_size": 56, "fullatt_block_indexes": [1]}
    config = Qwen2_5_VLConfig(text_config=TEXT, vision_config=vision, **IDS)
    return sharp(Qwen2_5_VLForConditionalGeneration._from_config(config, **options))


@pytest.fixture
def processor(minilm):
    return Processor(minilm.tokenizer)


def picture(height=112, width=140):
    numbers = torch.rand(height, width, 3, generator=torch.manual_seed(3))
    return (numbers.numpy() * 255).astype(np.uint8)


@pytest.mark.parametrize("make", [qwen2, qwen2_5])
def test_patterns_are_those_of_eager_attention(make, processor):
    trace = regard.trace(make(), "a red square", images=picture(), processor=processor)
    eager = make(attn_implementation="eager")
    with torch.no_grad():
        seen = eager(**processor(picture(), "a red square"), output_attentions=True)
    assert_close(trace.output, seen.logits, atol=1e-4, rtol=1e-4)
    for layer, weights in enumerate(seen.attentions):
        assert_close(trace.decoder[layer].dense(), weights, atol=1e-5, rtol=1e-4)
    assert trace.check().max_error < 1e-4
    squares = [token.place for token in trace.target if token.place is not None]
    assert [(place.row, place.column) for place in squares] == [
        (row, column) for row in range(4) for column in range(5)
    ]
    assert (squares[0].height, squares[0].width) == (28, 28)
    assert len(trace.source) == 8 * 10 == trace.encoder[0].shape[2]


def test_windows_are_joined_to_one_pattern(processor):
    trace = regard.trace(qwen2_5(), "a red square", images=picture(), processor=processor)
    places = [(token.place.row, token.place.column) for token in trace.source]
    assert sorted(places) == [(row, column) for row in range(8) for column in range(10)]
    windows = torch.tensor([row // 4 * 3 + column // 4 for row, column in places])
    same = windows[:, None] == windows
    for layer in (0, 2):
        weights = trace.encoder[layer].dense()
        assert torch.equal(weights > 0, same.expand_as(weights))
        assert_close(weights.sum(dim=-1), torch.ones(1, 4, 80))
    assert bool((trace.encoder[1].dense() > 0).all())


def test_a_patch_of_the_picture_is_where_the_trace_says(processor):
    """A patch that alone is changed in the picture changes the queries of its own tokens alone in the first layer."""
    changed = picture()
    changed[5 * 14 : 6 * 14, 3 * 14 : 4 * 14] = 255 - changed[5 * 14 : 6 * 14, 3 * 14 : 4 * 14]
    for make in (qwen2, qwen2_5):
        one, other = (
            regard.trace(make(), "a red square", images=image, processor=processor) for image in (picture(), changed)
        )
        difference = (one.encoder[0].query - other.encoder[0].query).abs().amax(dim=(0, 1, 3))
        (place,) = [one.source[i].place for i in (difference > 1e-5).nonzero()[:, 0].tolist()]
        assert (place.row, place.column, place.height, place.width) == (5, 3, 14, 14)


@pytest.mark.parametrize(("rows", "columns"), [(4, 5), (3, 3), (2, 7), (1, 1)])
def test_the_order_of_windows_is_that_of_transformers(rows, columns):
    grid = torch.tensor([[1, rows * 2, columns * 2]])
    index, _ = get_vision_window_index(grid, spatial_merge_size=2, window_size=56, patch_size=14)
    squares = [divmod(i, columns) for i in index.tolist()]
    expected = [(2 * row + m, 2 * column + n) for row, column in squares for m in (0, 1) for n in (0, 1)]
    assert patch_order(rows, columns, 2, 2) == expected


def test_the_picture_is_put_together(processor):
    encoded = processor(picture(), "a")
    rows = int(encoded["image_grid_thw"][0, 1]) // 2
    shades = picture_of(encoded["pixel_values"].float(), rows, 2, 14)
    mean, std = (torch.tensor(getattr(processor.pictures, name))[:, None, None] for name in ("image_mean", "image_std"))
    assert_close(shades * std + mean, torch.from_numpy(picture()).permute(2, 0, 1) / 255, atol=1e-5, rtol=1e-5)


def test_the_answer_of_the_model_is_traced(processor):
    trace = regard.trace(qwen2(), "a red square", images=picture(), processor=processor, new_tokens=3)
    assert 1 <= len(trace.written) <= 3
    assert trace.decoder[0].shape[3] == len(trace.target)


def test_what_has_no_place_is_refused(processor):
    def read(images, text="a red square"):
        regard.trace(qwen2(), text, images=images, processor=processor)

    assert refusal(InputError, read, [picture(), picture()]) == (
        "there are 2 pictures, and a trace has tokens for the patches of one picture; "
        "regard.watching(model) records the attention without tokens."
    )
    assert refusal(InputError, read, picture(), None) == (
        "Qwen2VLForConditionalGeneration reads a picture beside a text; give the text too."
    )


class TwoFrames(Processor):
    """A processor that makes two frames of a picture, as of a video."""

    def __call__(self, images=None, text=None, return_tensors=None):
        encoded = super().__call__(images, text, return_tensors)
        encoded["image_grid_thw"][0, 0] = 2
        return encoded


def test_several_frames_are_refused(minilm):
    processor = TwoFrames(minilm.tokenizer)
    assert refusal(InputError, regard.trace, qwen2(), "a red square", images=picture(), processor=processor) == (
        "the picture has 2 frames, and a trace has tokens for the patches of one picture; "
        "regard.watching(model) records the attention without tokens."
    )
