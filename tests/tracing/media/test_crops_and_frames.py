"""Traces of Gemma 3's crops and LLaVA-NeXT's video frames, against eager attention and what changes in the model."""

import numpy as np
import pytest
import torch
import transformers
from patches import changed_tokens, patches, places, with_inverted
from random_models import (
    TEXT,
    VISION,
    assert_weights,
    block_diagonal,
    eager_outputs,
    random_picture,
    sharp,
    tokenizer_with,
    without_vision_attention,
)
from refusals import refusal
from torch.testing import assert_close
from transformers.models.gemma3.image_processing_pil_gemma3 import (
    Gemma3ImageProcessorPil,  # transformers 5.17 exports it only beside torchvision
)

import regard
from regard import InputError, Trace
from regard.tracing.focus import focus_on
from regard.tracing.media.media import video_layout
from regard.tracing.tokens.places import Patch
from regard.views.patch_panels import patch_panels


@pytest.fixture(scope="module")
def gemma3(minilm):
    """A Gemma 3 whose crops have 32 pixels and 2 × 2 squares of 2 × 2 patches, with its processor."""
    names = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = tokenizer_with(minilm, *names.values())
    for name, token in names.items():
        setattr(tokenizer, name, token)
        setattr(tokenizer, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
    processor = transformers.Gemma3Processor(
        Gemma3ImageProcessorPil(size={"height": 32, "width": 32}), tokenizer, image_seq_length=4
    )
    processor.images_kwargs = processor.images_kwargs | {"do_pan_and_scan": True, "pan_and_scan_min_crop_size": 16}
    config = transformers.Gemma3Config(
        vision_config=VISION | {"image_size": 32, "patch_size": 8, "vision_use_head": False}, mm_tokens_per_image=4,
        text_config=TEXT | {"head_dim": 8, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"]},
        image_token_index=tokenizer.image_token_id,
    )  # fmt: skip
    return sharp(transformers.Gemma3ForConditionalGeneration(config)), processor


WIDE, SQUARE = random_picture(40, 120), random_picture(48, 48, seed=1)


def test_gemma3_crops_have_the_models_own_weights(gemma3):
    model, processor = gemma3
    trace = regard.trace(model, "it", images=[WIDE, SQUARE], processor=processor)
    text = f"{processor.image_token * 2}it"
    inputs = processor(images=[[WIDE, SQUARE]], text=text, return_tensors="pt")
    assert len(inputs["pixel_values"]) == 5  # the wide picture, three crops of it, and the square one
    seen = eager_outputs(model, inputs)
    vision = eager_outputs(model.model.vision_tower, {"pixel_values": inputs["pixel_values"]})
    assert_weights(trace.decoder, seen.attentions, atol=1e-4, rtol=1e-4)
    assert_weights(trace.encoder, map(block_diagonal, vision.attentions), atol=1e-4, rtol=1e-4)


def test_gemma3_crops_have_their_places(gemma3):
    model, processor = gemma3
    trace = regard.trace(model, "it", images=[WIDE, SQUARE], processor=processor)
    text = f"{processor.image_token * 2}it"
    _, *crops, square = processor(images=[[WIDE, SQUARE]], text=text, return_tensors="pt")["pixel_values"]
    for image, pixels in zip(trace.images, (torch.cat(crops, dim=2), square), strict=True):
        assert_close(image, (pixels / 2 + 0.5).clamp(0, 1))  # the processor's mean and standard deviation are 0.5
    squares = [(row, column) for row in range(2) for column in range(2)]
    assert places(trace.target) == [
        *(Patch(0, row, column, 16.0, 48.0, thumbnail=True) for row, column in squares),
        *(Patch(0, row, 2 * crop + column, 16.0, 16.0) for crop in range(3) for row, column in squares),
        *(Patch(1, row, column, 16.0, 16.0) for row, column in squares),
    ]
    assert len(trace.source) == 5 * 16
    assert trace.source[16 + 16 + 5].place == Patch(0, 1, 5, 8.0, 8.0)  # row 1, column 1 of the second crop


def test_a_changed_square_of_the_picture_is_where_the_trace_of_gemma3_says(gemma3):
    model, processor = gemma3
    model = without_vision_attention(model)
    changed = with_inverted(WIDE, np.s_[22:38, 82:98])  # inside the lower left square of the last crop
    one, other = (
        regard.trace(model, "it", images=[picture, SQUARE], processor=processor) for picture in (WIDE, changed)
    )
    assert {token.text for token in changed_tokens(one, other)} == {"0:thumbnail 1,1", "0:1,4"}


def test_new_tokens_of_gemma3_leave_the_attention_of_its_crops_to_each_other(gemma3):
    model, processor = gemma3
    inputs = processor(images=[[WIDE]], text=f"{processor.image_token}it", return_tensors="pt")
    ids = model.generate(**inputs, max_new_tokens=4, min_new_tokens=4)
    trace = regard.trace(model, "it", images=WIDE, processor=processor, new_tokens=4)
    assert [token.token.piece for token in trace.written] == processor.tokenizer.convert_ids_to_tokens(ids[0, -4:])
    assert [token.text for token in trace.target[-6:-4]] == ["it", "[SEP]"]
    whole = inputs | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    whole["token_type_ids"] = torch.nn.functional.pad(inputs["token_type_ids"], (0, 4))
    seen = eager_outputs(model, whole)
    assert_weights(trace.decoder, seen.attentions, atol=1e-4, rtol=1e-4)
    first, last = (position for position, token in enumerate(trace.target) if token.text in ("0,2", "1,3"))
    assert trace.decoder[1][0, :, first, last].min() > 0  # the squares of a crop attend to each other


class FramesAndText:
    """A processor of videos and text as LLaVA-NeXT-Video has one; its own needs torchvision."""

    video_token = "<video>"

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.image_processor = transformers.LlavaNextImageProcessorPil()

    def __call__(self, videos, text, return_tensors):
        pixels = torch.stack([torch.from_numpy(np.array(frame)).permute(2, 0, 1) / 255 for frame in videos])[None]
        text = text.replace(self.video_token, self.video_token * (4 * len(videos)))
        return {"pixel_values_videos": pixels, **self.tokenizer(text, return_tensors=return_tensors)}


def test_each_frame_of_a_video_is_one_picture_in_llava_next_video(minilm, tmp_path):
    tokenizer = tokenizer_with(minilm, "<image>", "<video>")
    config = transformers.LlavaNextVideoConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION, image_size=32, patch_size=8),
        text_config=transformers.LlamaConfig(**TEXT),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"), image_grid_pinpoints=[[32, 64]],
    )  # fmt: skip
    model, processor = sharp(transformers.LlavaNextVideoForConditionalGeneration(config)), FramesAndText(tokenizer)
    frames = [random_picture(32, 32, seed) for seed in range(3)]
    trace = regard.trace(model, "it", video=frames, processor=processor)
    assert places(trace.target) == patches(3, 2, 2, 16.0)
    timed = regard.trace(model, "it", video=frames, fps=2.0, processor=processor)
    times = [(place.image, place.start_seconds, place.end_seconds) for place in places(timed.source)]
    assert times == [(image, image / 2, (image + 1) / 2) for image in range(3) for _ in range(16)]
    names = ["frame 0, 0.00 to 0.50 s", "frame 1, 0.50 to 1.00 s", "frame 2, 1.00 to 1.50 s"]
    assert [panel.name for panel in patch_panels(focus_on(timed, "it"), 3)] == names
    assert Trace.load(timed.save(tmp_path / "trace.safetensors")).target == timed.target
    seen = eager_outputs(model, processor(frames, "<video>it", "pt"))
    assert_weights(trace.decoder, seen.attentions, atol=1e-4, rtol=1e-4)
    assert_an_inverted_square_is_where_the_trace_says(model, processor, frames)


def assert_an_inverted_square_is_where_the_trace_says(model, processor, frames):
    """Fail unless only token 1:1,0 learns that the lower left square of frame 1 is inverted."""
    model, changed = without_vision_attention(model), with_inverted(frames[1], np.s_[16:, :16])
    one, other = (
        regard.trace(model, "it", video=[frames[0], frame, frames[2]], processor=processor)
        for frame in (frames[1], changed)
    )
    assert [token.text for token in changed_tokens(one, other)] == ["1:1,0"]


class FramesAndNewline(FramesAndText):
    """A processor of videos and text as LLaVA-OneVision has one: after the frames it adds a token."""

    def __call__(self, videos, text, return_tensors):
        pixels = super().__call__(videos, text, return_tensors)["pixel_values_videos"]
        text = text.replace(self.video_token, self.video_token * (4 * len(videos) + 1))
        return {"pixel_values_videos": pixels, **self.tokenizer(text, return_tensors=return_tensors)}


def test_the_frames_of_a_video_are_followed_by_a_newline_in_llava_onevision(minilm):
    tokenizer = tokenizer_with(minilm, "<image>", "<video>")
    config = transformers.LlavaOnevisionConfig(
        vision_config=transformers.SiglipVisionConfig(**VISION, image_size=32, patch_size=8, vision_use_head=False),
        text_config=transformers.LlamaConfig(**TEXT), image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<video>"), image_grid_pinpoints=[[32, 64]],
    )  # fmt: skip
    model, processor = sharp(transformers.LlavaOnevisionForConditionalGeneration(config)), FramesAndNewline(tokenizer)
    frames = [random_picture(32, 32, seed) for seed in range(3)]
    trace = regard.trace(model, "it", video=frames, processor=processor)
    assert [token.place for token in trace.target[1:14]] == [*patches(3, 2, 2, 16.0), None]
    assert trace.target[13].text == "[NEWLINE]"
    seen = eager_outputs(model, processor(frames, "<video>it", "pt"))
    assert_weights(trace.decoder, seen.attentions, atol=1e-4, rtol=1e-4)
    assert_an_inverted_square_is_where_the_trace_says(model, processor, frames)


def test_a_video_without_a_text_has_no_patches_in_it():
    config = transformers.LlavaOnevisionConfig()
    layout = video_layout(config, torch.rand(1, 3, 3, 32, 32), (8, 8), n_image_tokens=0)
    assert (len(layout.images), len(layout.encoder), layout.text_patches) == (3, 3, ())


@pytest.mark.parametrize("kind", ["VideoMAE", "Vivit"])
def test_a_tubelet_is_a_patch_of_several_frames(kind, tmp_path):
    """Changing a patch of one frame changes the query of one token alone, in the first layer."""
    sizes = {**VISION, "image_size": (48, 80), "num_frames": 6}
    if kind == "VideoMAE":
        model = sharp(transformers.VideoMAEModel(transformers.VideoMAEConfig(**sizes, patch_size=16, tubelet_size=2)))
        processor = transformers.VideoMAEImageProcessorPil(do_resize=False, do_center_crop=False)
    else:
        model = sharp(transformers.VivitModel(transformers.VivitConfig(**sizes, tubelet_size=[3, 16, 16])))
        processor = transformers.VivitImageProcessor(do_resize=False, do_center_crop=False)
    n_merged, n_extra = (2, 0) if kind == "VideoMAE" else (3, 1)
    frames = [np.asarray(random_picture(48, 80, seed)) for seed in range(6)]
    trace = regard.trace(model, video=frames, fps=2.0, processor=processor)
    assert len(trace.tokens) == n_extra + 6 // n_merged * 3 * 5
    assert len(trace.images) == 6
    inputs = processor([frames], return_tensors="pt")
    assert_weights(trace.encoder, eager_outputs(model, inputs).attentions, rtol=1e-3, atol=1e-5)
    for frame, row, column in ((0, 0, 0), (3, 1, 2), (5, 2, 4)):
        box = np.s_[16 * row : 16 * row + 16, 16 * column : 16 * column + 16]
        changed = [with_inverted(one, box) if i == frame else one for i, one in enumerate(frames)]
        other = regard.trace(model, video=changed, fps=2.0, processor=processor)
        (token,) = changed_tokens(trace, other, "encoder L0H0")
        first = frame // n_merged * n_merged
        assert (token.place.image, token.place.row, token.place.column) == (first, row, column)
        assert (token.place.n_images, token.place.start_seconds) == (n_merged, first / 2)
        assert token.place.end_seconds == (first + n_merged) / 2
    assert refusal(InputError, regard.trace, model, video=frames[:5], processor=processor) == (
        f"the video has 5 frames and {kind}Model reads 6; give as many."
    )
    drawing = trace.figure(tmp_path / "video.png", token=f"{n_merged}:1,2", head="L0H1")
    assert drawing.exists()
    loaded = regard.Trace.load(trace.save(tmp_path / "video.safetensors"))
    assert loaded.tokens == trace.tokens


def test_time_and_space_apart_are_refused():
    """TimeSformer attends to the frames of a patch and to the patches of a frame in turn."""
    sizes = {**VISION, "image_size": 48, "patch_size": 16, "num_frames": 4}
    model = transformers.TimesformerModel(transformers.TimesformerConfig(**sizes))
    processor = transformers.VideoMAEImageProcessorPil(do_resize=False, do_center_crop=False)
    frames = [random_picture(48, 48, seed) for seed in range(4)]
    assert refusal(InputError, regard.trace, model, video=frames, processor=processor) == (
        "TimesformerModel and VideoMAEImageProcessorPil do not divide pictures into patches in a way that regard "
        "knows, so no token has a place in them; regard.watching(model) records the attention without tokens."
    )
