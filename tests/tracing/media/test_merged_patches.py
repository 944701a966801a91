"""Tests of traces of vision models that merge squares of patches into a token, against their eager attention."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from patches import changed_tokens, patches, places, with_inverted
from random_models import assert_weights, eager_outputs, sharp
from refusals import refusal
from torch.testing import assert_close
from transformers.vision_utils import get_vision_window_index

import regard
from regard import InputError
from regard.tracing.media.merged_patches import frames_of, patch_order
from regard.tracing.tokens.places import Patch

IMAGE_ID = 150
TEXT = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2} | {
    "intermediate_size": 64, "vocab_size": 30522, "bos_token_id": 101, "eos_token_id": 102,
    "rope_parameters": {"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 10000.0},
}  # fmt: skip
IDS = {"image_token_id": IMAGE_ID, "video_token_id": 151, "vision_start_token_id": 152, "vision_end_token_id": 153}


class Processor:
    """A small processor of pictures, videos and text: the image processor of Qwen2-VL, and MiniLM's tokenizer."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.pictures = transformers.Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=168 * 168)

    def __call__(self, images=None, videos=None, text=None, return_tensors=None):
        if videos is None:
            encoded, token = dict(self.pictures(images=images, return_tensors="pt")), IMAGE_ID
            shapes = encoded["image_grid_thw"]
        else:
            encoded, token = video_patches(videos), 151
            shapes = encoded["video_grid_thw"]
        if text is None:
            return transformers.BatchFeature(encoded)
        words = self.tokenizer(text).input_ids
        parts = [[152, *[token] * (int(shape.prod()) // 4), 153] for shape in shapes]
        ids = torch.tensor([[words[0], *(token for part in parts for token in part), *words[1:]]])
        types = torch.where(ids == token, 1 if videos is None else 2, 0).int()
        return transformers.BatchFeature(
            {**encoded, "input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": types}
        )


def video_patches(frames):
    """The patches of a video as Qwen2-VL's video processor orders them, patch by patch."""
    frames = torch.stack([torch.from_numpy(frame).permute(2, 0, 1) / 255 for frame in frames])
    rows, columns = frames.shape[2] // 14, frames.shape[3] // 14
    patches = [
        torch.stack([frames[2 * time : 2 * time + 2, c, 14 * row : 14 * row + 14, 14 * column : 14 * column + 14]
                     for c in range(3)]).flatten()
        for time in range(len(frames) // 2)
        for square_row in range(rows // 2) for square_column in range(columns // 2)
        for row in (2 * square_row, 2 * square_row + 1) for column in (2 * square_column, 2 * square_column + 1)
    ]  # fmt: skip
    return {
        "pixel_values_videos": torch.stack(patches),
        "video_grid_thw": torch.tensor([[len(frames) // 2, rows, columns]]),
    }


def qwen2():
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 48, "num_heads": 4, "mlp_ratio": 2}
    config = transformers.Qwen2VLConfig(text_config=TEXT, vision_config=vision, **IDS)
    return sharp(transformers.Qwen2VLForConditionalGeneration(config), std=0.1)


def qwen2_5():
    vision = {"depth": 3, "hidden_size": 32, "out_hidden_size": 48, "num_heads": 4, "intermediate_size": 64}
    vision |= {"window_size": 56, "fullatt_block_indexes": [1]}
    config = transformers.Qwen2_5_VLConfig(text_config=TEXT, vision_config=vision, **IDS)
    return sharp(transformers.Qwen2_5_VLForConditionalGeneration(config), std=0.1)


@pytest.fixture
def processor(minilm):
    return Processor(minilm.tokenizer)


def picture(height=112, width=140):
    numbers = torch.rand(height, width, 3, generator=torch.manual_seed(3))
    return (numbers.numpy() * 255).astype(np.uint8)


@pytest.mark.parametrize("make", [qwen2, qwen2_5])
def test_patterns_are_those_of_eager_attention(make, processor):
    trace = regard.trace(make(), "a red square", images=picture(), processor=processor)
    seen = eager_outputs(make(), processor(picture(), text="a red square"))
    assert_close(trace.output, seen.logits, atol=1e-4, rtol=1e-4)
    assert_weights(trace.decoder, seen.attentions, atol=1e-5, rtol=1e-4)
    assert trace.check().max_error < 1e-4
    assert places(trace.target) == patches(1, 4, 5, 28.0)
    assert len(trace.source) == 8 * 10 == trace.encoder[0].shape[2]


def test_windows_are_joined_to_one_pattern(processor):
    trace = regard.trace(qwen2_5(), "a red square", images=picture(), processor=processor)
    cells = [(place.row, place.column) for place in places(trace.source)]
    assert sorted(cells) == [(row, column) for row in range(8) for column in range(10)]
    windows = torch.tensor([row // 4 * 3 + column // 4 for row, column in cells])
    same = windows[:, None] == windows
    for layer in (0, 2):
        weights = trace.encoder[layer].dense()
        assert torch.equal(weights > 0, same.expand_as(weights))
        assert_close(weights.sum(dim=-1), torch.ones(1, 4, 80))
    assert bool((trace.encoder[1].dense() > 0).all())


def test_a_patch_of_the_picture_is_where_the_trace_says(processor):
    """A patch that alone is changed in the picture changes the queries of its own tokens alone in the first layer."""
    changed = with_inverted(picture(), np.s_[5 * 14 : 6 * 14, 3 * 14 : 4 * 14])
    for make in (qwen2, qwen2_5):
        one, other = (
            regard.trace(make(), "a red square", images=image, processor=processor) for image in (picture(), changed)
        )
        (place,) = places(changed_tokens(one, other, "encoder L0H0"))
        assert (place.row, place.column, place.height, place.width) == (5, 3, 14, 14)


@pytest.mark.parametrize(("rows", "columns"), [(4, 5), (3, 3), (2, 7), (1, 1)])
def test_the_order_of_windows_is_that_of_transformers(rows, columns):
    grid = torch.tensor([[1, rows * 2, columns * 2]])
    index, _ = get_vision_window_index(grid, spatial_merge_size=2, window_size=56, patch_size=14)
    squares = [divmod(i, columns) for i in index.tolist()]
    expected = [(2 * row + m, 2 * column + n) for row, column in squares for m in (0, 1) for n in (0, 1)]
    assert patch_order(rows, columns, 2, 2) == expected


def test_the_picture_is_put_together(processor):
    encoded = processor(picture(), text="a")
    rows = int(encoded["image_grid_thw"][0, 1]) // 2
    shades = frames_of(encoded["pixel_values"].float(), rows, 2, 14)[0]
    mean, std = (torch.tensor(getattr(processor.pictures, name))[:, None, None] for name in ("image_mean", "image_std"))
    assert_close(shades * std + mean, torch.from_numpy(picture()).permute(2, 0, 1) / 255, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("medium", ["images", "video"])
def test_the_answer_of_the_model_is_traced(processor, medium):
    frames = [picture() // (number + 1) for number in range(4)]
    trace = regard.trace(qwen2(), "a red square", **{medium: frames}, processor=processor, new_tokens=3)
    inputs = processor(text="a red square", **{"images" if medium == "images" else "videos": frames})
    ids = qwen2().generate(**inputs, max_new_tokens=3, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    assert [new.token.piece for new in trace.written] == processor.tokenizer.convert_ids_to_tokens(ids)
    assert trace.decoder[0].shape[3] == len(trace.target)


@pytest.mark.parametrize("make", [qwen2, qwen2_5])
def test_several_pictures_keep_their_places(make, processor):
    pictures = [picture(), picture(84, 56)]
    trace = regard.trace(make(), "a red square", images=pictures, processor=processor)
    seen = eager_outputs(make(), processor(pictures, text="a red square"))
    assert_weights(trace.decoder, seen.attentions, atol=1e-5, rtol=1e-4)
    assert [image.shape for image in trace.images] == [(3, 112, 140), (3, 84, 56)]
    second = [replace(patch, image=1) for patch in patches(1, 3, 2, 28.0)]
    assert places(trace.target) == [*patches(1, 4, 5, 28.0), *second]
    assert trace.check().max_error < 1e-4
    pictures_of_tokens = torch.tensor([token.place.image for token in trace.source])
    apart = pictures_of_tokens[:, None] != pictures_of_tokens
    assert not trace.encoder[1].dense()[..., apart].any()
    assert bool((trace.encoder[1].dense()[..., ~apart] > 0).all())
    assert trace.target[2].text == "0:0,0"
    changed = with_inverted(pictures[1], np.s_[3 * 14 : 4 * 14, 14 : 2 * 14])
    other = regard.trace(make(), "a red square", images=[pictures[0], changed], processor=processor)
    assert [token.text for token in changed_tokens(trace, other, "encoder L0H0")] == ["1:3,1"]


@pytest.mark.parametrize("make", [qwen2, qwen2_5])
def test_a_token_of_a_video_covers_two_frames(make, processor):
    frames = [picture() // (number + 1) for number in range(4)]
    trace = regard.trace(make(), "a red square", video=frames, processor=processor)
    seen = eager_outputs(make(), processor(videos=frames, text="a red square"))
    assert_weights(trace.decoder, seen.attentions, atol=1e-5, rtol=1e-4)
    squares = [(place.image, place.n_images, place.row, place.column) for place in places(trace.target)]
    assert squares == [(image, 2, row, column) for image in (0, 2) for row in range(4) for column in range(5)]
    for number, image in enumerate(trace.images):
        assert_close(image, torch.from_numpy(frames[number]).permute(2, 0, 1) / 255)
    frames[3] = frames[3].copy()
    frames[3][5 * 14 : 6 * 14, 3 * 14 : 4 * 14] = 255
    other = regard.trace(make(), "a red square", video=frames, processor=processor)
    (token,) = changed_tokens(trace, other, "encoder L0H0")
    assert (token.text, token.place) == ("2:5,3", Patch(2, 5, 3, 14.0, 14.0, n_images=2))
    windows = {(token.place.image, token.place.row // 4, token.place.column // 4) for token in trace.source}
    n_keys = (trace.encoder[0].dense()[0, 0] > 0).sum(dim=-1)
    assert int(n_keys.max()) == (16 if len(windows) == 12 and make is qwen2_5 else 80)


class TimedProcessor(Processor):
    """A processor that takes the times of frames, and tells the model the seconds of a pair, as Qwen2.5-VL's does."""

    video_processor = None

    def __call__(self, videos, video_metadata, do_sample_frames, **options):
        (metadata,) = video_metadata
        assert (metadata["frames_indices"], do_sample_frames) == ([0, 1, 2, 3], False)
        return super().__call__(videos=videos, **options) | {"second_per_grid_ts": torch.tensor([2 / metadata["fps"]])}


def test_a_token_of_a_video_knows_its_seconds_and_the_model_too(minilm):
    frames = [picture() // (number + 1) for number in range(4)]
    processor = TimedProcessor(minilm.tokenizer)
    slow, fast = (
        regard.trace(qwen2_5(), "a red square", video=frames, fps=fps, processor=processor) for fps in (0.5, 4.0)
    )
    for trace, seconds in ((slow, {(0.0, 4.0), (4.0, 8.0)}), (fast, {(0.0, 0.5), (0.5, 1.0)})):
        assert {(token.place.start_seconds, token.place.end_seconds) for token in trace.source} == seconds
        times = [(place.start_seconds, place.end_seconds) for place in places(trace.target)]
        assert times == [pair for pair in sorted(seconds) for _ in range(20)]
    metadata = [{"fps": 0.5, "frames_indices": [0, 1, 2, 3]}]
    inputs = processor(videos=frames, video_metadata=metadata, do_sample_frames=False, text="a red square")
    seen = eager_outputs(qwen2_5(), inputs)
    assert_close(slow.decoder[1].dense(), seen.attentions[1], atol=1e-5, rtol=1e-4)
    assert (slow.decoder[1].dense() - fast.decoder[1].dense()).abs().max() > 1e-3


def test_statistics_of_windows_are_those_of_the_joined_pattern(processor):
    ask = regard.Ask(own=True, previous=True, top=5)
    options = {"images": picture(), "processor": processor}
    trace, whole = (regard.trace(qwen2_5(), "a red square", ask=one, **options) for one in (ask, None))
    assert trace.source == whole.source
    for layer in (0, 1, 2):
        found, expected = trace.encoder[layer].answer(ask), whole.encoder[layer].answer(ask)
        for name in ("received", "entropy", "distance", "first", "own", "previous"):
            assert_close(getattr(found, name), getattr(expected, name), atol=1e-5, rtol=1e-4, msg=name)
        assert torch.equal(found.top.keys, expected.top.keys)
        assert_close(found.top.weights, expected.top.weights, atol=1e-5, rtol=1e-4)


def test_a_picture_without_a_text_and_maps_of_windows_of_several_sizes_are_refused(processor):
    def read(text="a red square", **options):
        regard.trace(qwen2_5(), text, images=picture(), processor=processor, **options)

    assert refusal(InputError, read, None) == (
        "Qwen2_5_VLForConditionalGeneration reads pictures beside a text; give the text too."
    )
    assert refusal(InputError, read, ask=regard.Ask(pooled=(2, 2))) == (
        "the windows of the picture have different sizes, so that their pooled maps cannot be joined into a map of the "
        "whole picture; leave pooled=… out of ask=Ask(…)."
    )
