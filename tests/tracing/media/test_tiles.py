"""Tests of traces of models that cut pictures into tiles, against eager attention and what changes in the model."""

import copy

import numpy as np
import pytest
import torch
import transformers
from patches import changed_tokens, patches, places, with_inverted
from PIL import Image
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
from transformers.models.idefics3.image_processing_pil_idefics3 import (
    Idefics3ImageProcessorPil,  # transformers 5.17 exports it only beside torchvision
)

import regard
from regard import InputError
from regard.tracing.media.media import flat_pictures
from regard.tracing.tokens.places import Patch


@pytest.fixture(scope="module")
def llava_next(minilm):
    """A LLaVA-NeXT whose tiles have 32 pixels and 4 × 4 patches, with its processor."""
    tokenizer = tokenizer_with(minilm, "<image>")
    pinpoints = [[32, 64], [64, 32], [64, 64], [32, 96]]
    config = transformers.LlavaNextConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION, image_size=32, patch_size=8),
        text_config=transformers.LlamaConfig(**TEXT),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"), image_grid_pinpoints=pinpoints,
    )  # fmt: skip
    processor = transformers.LlavaNextProcessor(
        transformers.LlavaNextImageProcessorPil(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_grid_pinpoints=pinpoints
        ),
        tokenizer, patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1,
    )  # fmt: skip
    return sharp(transformers.LlavaNextForConditionalGeneration(config)), processor


@pytest.fixture(scope="module")
def idefics3(minilm):
    """An Idefics3 whose tiles have 32 pixels and 2 × 2 squares of 2 × 2 patches, with its processor."""
    tags = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokenizer = tokenizer_with(minilm, "<image>", "<fake_token_around_image>", "<global-img>", *tags)
    processor = transformers.Idefics3Processor(
        Idefics3ImageProcessorPil(size={"longest_edge": 96}, max_image_size={"longest_edge": 32}),
        tokenizer, image_seq_len=4,
    )  # fmt: skip
    config = transformers.Idefics3Config(
        vision_config=VISION | {"image_size": 32, "patch_size": 8}, text_config=transformers.LlamaConfig(**TEXT),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"), scale_factor=2,
    )  # fmt: skip
    return sharp(transformers.Idefics3ForConditionalGeneration(config)), processor


class InternVLProcessor:
    """A processor of pictures and text as InternVL has one; its own needs torchvision."""

    image_token, video_token = "<IMG_CONTEXT>", "<video>"

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.image_processor = transformers.GotOcr2ImageProcessorPil(
            size={"height": 32, "width": 32}, min_patches=1, max_patches=6, crop_to_patches=True
        )

    def __call__(self, images=None, videos=None, text=None, return_tensors=None):
        if videos is not None:
            encoded = self.image_processor(images=videos, crop_to_patches=False, return_tensors=return_tensors)
            frames = "".join(f"Frame: <img>{self.image_token * 4}</img>" for _ in videos)
            text = self.tokenizer(text.replace(self.video_token, frames), return_tensors=return_tensors)
            return {"pixel_values": encoded["pixel_values"], **text}
        encoded = self.image_processor(images=images, return_tensors=return_tensors)
        before, *parts = text.split(self.image_token)
        for number, part in zip(encoded.pop("num_patches").tolist(), parts, strict=True):
            before += f"<img>{self.image_token * 4 * number}</img>{part}"
        return {**encoded, **self.tokenizer(before, return_tensors=return_tensors)}


@pytest.fixture(scope="module")
def internvl(minilm):
    """An InternVL whose tiles have 32 pixels and 2 × 2 squares of 2 × 2 patches, with its processor."""
    tokenizer = tokenizer_with(minilm, "<IMG_CONTEXT>", "<img>", "</img>", "<video>")
    config = transformers.InternVLConfig(
        vision_config=transformers.InternVLVisionConfig(**VISION, image_size=[32, 32], patch_size=[8, 8]),
        text_config=transformers.LlamaConfig(**TEXT), image_seq_length=4,
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
    )  # fmt: skip
    return sharp(transformers.InternVLForConditionalGeneration(config)), InternVLProcessor(tokenizer)


class OneVisionProcessor:
    """A processor of pictures and text as LLaVA-OneVision has one; its own needs torchvision."""

    image_token, num_image_tokens, vision_feature_select_strategy = "<image>", 16, "full"
    vision_aspect_ratio = "anyres_max_4"
    replace_image_token = transformers.LlavaOnevisionProcessor.replace_image_token
    _get_number_of_features = transformers.LlavaOnevisionProcessor._get_number_of_features
    _get_unpadded_features = transformers.LlavaOnevisionProcessor._get_unpadded_features

    def __init__(self, tokenizer, pinpoints):
        self.tokenizer = tokenizer
        self.image_processor = transformers.LlavaOnevisionImageProcessorPil(
            size={"height": 32, "width": 32}, image_grid_pinpoints=pinpoints
        )

    def __call__(self, images, text, return_tensors):
        encoded = self.image_processor(images=[flat_pictures(images)], return_tensors=return_tensors)
        before, *parts = text.split(self.image_token)
        for number, part in enumerate(parts):
            before += self.replace_image_token(encoded, number) + part
        return {**encoded, **self.tokenizer(before, return_tensors=return_tensors)}


@pytest.fixture(scope="module")
def onevision(minilm):
    """A LLaVA-OneVision with tiles of 4 × 4 patches of 8 pixels, which reads no more patches than 4 tiles have."""
    tokenizer = tokenizer_with(minilm, "<image>")
    pinpoints = [[32, 64], [64, 64], [96, 96], [32, 96]]
    config = transformers.LlavaOnevisionConfig(
        vision_config=transformers.SiglipVisionConfig(**VISION, image_size=32, patch_size=8, vision_use_head=False),
        text_config=transformers.LlamaConfig(**TEXT), image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=pinpoints, vision_aspect_ratio="anyres_max_4",
    )  # fmt: skip
    return sharp(transformers.LlavaOnevisionForConditionalGeneration(config)), OneVisionProcessor(tokenizer, pinpoints)


@pytest.mark.parametrize("name", ["llava_next", "idefics3", "internvl"])
def test_patterns_are_those_of_eager_attention(name, request):
    model, processor = request.getfixturevalue(name)
    pictures = [random_picture(40, 90), random_picture(64, 64, seed=1)]
    trace = regard.trace(model, "what is it", images=pictures, processor=processor)
    outputs = eager_outputs(
        model, processor(images=pictures, text=f"{processor.image_token * 2}what is it", return_tensors="pt")
    )
    assert_close(trace.output, outputs.logits, rtol=1e-3, atol=1e-4)
    assert_weights(trace.decoder, outputs.attentions, rtol=1e-3, atol=1e-5)
    assert trace.check().max_error < 1e-4
    expected = vision_weights(model, processor, pictures)
    assert len(expected[0]) == {"llava_next": 4 + 5, "idefics3": 7 + 10, "internvl": 3 + 5}[name]
    assert_weights(trace.encoder, map(block_diagonal, expected[: len(trace.encoder)]), rtol=1e-3, atol=1e-5)


def vision_weights(model, processor, pictures):
    """The weights of each layer of the vision model by eager attention, with one item of the batch for each tile."""
    tiles = processor.image_processor(images=pictures, return_tensors="pt")["pixel_values"].flatten(0, -4)
    tiles = tiles[tiles.abs().amax(dim=(1, 2, 3)) > 0]  # the processor adds empty tiles to short lists of tiles
    vision = copy.deepcopy(getattr(model.model, "vision_tower", None) or model.model.vision_model)
    vision.set_attn_implementation("eager")
    with torch.no_grad():
        return vision(tiles, output_attentions=True).attentions


def changed_patches(model, processor, picture, box):
    """The patches whose tokens in the text differ if a box (left, top, right, bottom) of the picture is inverted."""
    left, top, right, bottom = box
    changed, blind = with_inverted(picture, np.s_[top:bottom, left:right]), without_vision_attention(model)
    one, other = (regard.trace(blind, "it", images=image, processor=processor) for image in (picture, changed))
    return one, places(changed_tokens(one, other))


@pytest.mark.parametrize(("row", "column"), [(0, 0), (5, 2), (3, 7)])
def test_a_patch_is_where_the_trace_says_in_llava_next(llava_next, row, column):
    """The picture fits four tiles as it is, so its patches have 8 pixels, and those of the thumbnail show 16."""
    box = (8 * column, 8 * row, 8 * column + 8, 8 * row + 8)
    trace, changed = changed_patches(*llava_next, random_picture(64, 64), box)
    assert [patch for patch in changed if not patch.thumbnail] == [Patch(0, row, column, 8.0, 8.0)]
    assert Patch(0, row // 2, column // 2, 16.0, 16.0, thumbnail=True) in changed
    assert trace.images[0].shape == (3, 64, 64)
    texts = [f"thumbnail {r},{c}" for r in range(4) for c in range(4)]
    for r in range(8):
        texts += [f"{r},{c}" for c in range(8)] + ["[NEWLINE]"]
    assert [token.text for token in trace.target] == ["[CLS]", *texts, "it", "[SEP]"]


def test_the_margins_of_a_picture_have_no_tokens_in_llava_next(llava_next):
    """A picture of 16 × 96 pixels lies in rows 1 and 2 of 4 × 12; its thumbnail has no margins."""
    trace, changed = changed_patches(*llava_next, random_picture(16, 96), (40, 8, 48, 16))
    assert [patch for patch in changed if not patch.thumbnail] == [Patch(0, 2, 5, 8.0, 8.0)]
    thumbnail = [patch for patch in changed if patch.thumbnail]
    assert Patch(0, 2, 1, 4.0, 24.0, thumbnail=True, grid_top=8.0) in thumbnail
    assert all(16.0 - 4.0 <= patch.top < 24.0 for patch in thumbnail)
    assert {place.row for place in places(trace.target) if not place.thumbnail} == {1, 2}
    assert {place.row for place in places(trace.source) if not place.thumbnail} == {0, 1, 2, 3}
    margins = torch.cat([trace.images[0][:, :8], trace.images[0][:, 24:]], dim=1)
    assert torch.equal(margins, margins[:, :1, :1].expand_as(margins))


def test_a_large_picture_has_fewer_patches_in_llava_onevision(onevision):
    """The 12 × 12 patches of nine tiles become 8 × 8 of 12 pixels, by interpolation between neighbours."""
    picture = random_picture(96, 96)
    trace, changed = changed_patches(*onevision, picture, (50, 26, 58, 34))
    assert [place for place in places(trace.target) if not place.thumbnail] == patches(1, 8, 8, 12.0)
    changed = [patch for patch in changed if not patch.thumbnail]
    assert Patch(0, 2, 4, 12.0, 12.0) in changed
    assert all(abs(patch.top + 6 - 30) < 20 and abs(patch.left + 6 - 54) < 20 for patch in changed)
    assert len(trace.source) == 16 * 10
    _, changed = changed_patches(*onevision, random_picture(64, 64), (8, 16, 16, 24))
    assert [patch for patch in changed if not patch.thumbnail] == [Patch(0, 2, 1, 8.0, 8.0)]


def test_each_of_several_pictures_is_one_tile_in_llava_onevision(onevision):
    model, processor = onevision
    pictures = [random_picture(96, 96), random_picture(32, 64, seed=1)]
    trace = regard.trace(model, "what is it", images=pictures, processor=processor)
    assert places(trace.target) == [token.place for token in trace.source] == patches(2, 4, 4, 8.0)
    assert [token.text for token in trace.target].count("[NEWLINE]") == 2
    outputs = eager_outputs(model, processor(images=pictures, text="<image><image>what is it", return_tensors="pt"))
    assert_weights(trace.decoder, outputs.attentions, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 2), (1, 5)])
@pytest.mark.parametrize("name", ["idefics3", "internvl"])
def test_a_square_of_patches_is_where_the_trace_says(name, row, column, request):
    """The picture fits 2 × 3 tiles as it is, so a square has 16 pixels; one of the thumbnail shows 32 × 48."""
    box = (16 * column + 2, 16 * row + 2, 16 * column + 14, 16 * row + 14)
    trace, changed = changed_patches(*request.getfixturevalue(name), random_picture(64, 96), box)
    assert [patch for patch in changed if not patch.thumbnail] == [Patch(0, row, column, 16.0, 16.0)]
    assert Patch(0, row // 2, column // 3, 32.0, 48.0, thumbnail=True) in changed
    assert trace.images[0].shape == (3, 64, 96)
    assert places(trace.source)[16:19] == [Patch(0, 0, column, 8.0, 8.0) for column in (4, 5, 6)]


def test_a_small_picture_is_one_tile_in_idefics3(idefics3):
    model, processor = idefics3
    one_tile = copy.copy(processor)
    one_tile.image_processor = Idefics3ImageProcessorPil(size={"longest_edge": 32}, max_image_size={"longest_edge": 32})
    trace = regard.trace(model, "it", images=random_picture(20, 30), processor=one_tile)
    assert places(trace.target) == patches(1, 2, 2, 16.0)


def test_each_frame_of_a_video_is_one_tile_in_internvl(internvl):
    model, processor = internvl
    frames = [random_picture(64, 96, seed) for seed in range(3)]
    trace = regard.trace(model, "it", video=frames, processor=processor)
    assert places(trace.target) == patches(3, 2, 2, 16.0)
    frames[1] = Image.new("RGB", (96, 64), "red")
    other = regard.trace(model, "it", video=frames, processor=processor)
    assert {place.image for place in places(changed_tokens(trace, other))} == {1}


@pytest.mark.parametrize("name", ["llava_next", "idefics3"])
def test_the_answer_about_tiles_is_that_of_generate(name, request):
    model, processor = request.getfixturevalue(name)
    trace = regard.trace(model, "what", images=random_picture(40, 90), processor=processor, new_tokens=4)
    inputs = processor(images=random_picture(40, 90), text=f"{processor.image_token}what", return_tensors="pt")
    del inputs["token_type_ids"]
    ids = model.generate(**inputs, max_new_tokens=4, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    assert [new.token.piece for new in trace.written] == processor.tokenizer.convert_ids_to_tokens(ids)


class OneTokenTooFew(InternVLProcessor):
    """A processor whose text has one image token too few."""

    def __call__(self, images, text, return_tensors):
        encoded = super().__call__(images=images, text=text, return_tensors=return_tensors)
        return encoded | {"input_ids": torch.cat([encoded["input_ids"][:, :2], encoded["input_ids"][:, 3:]], dim=1)}


def test_image_tokens_that_are_not_those_of_the_tiles_are_refused(internvl):
    model, processor = internvl
    other = OneTokenTooFew(processor.tokenizer)
    assert refusal(InputError, regard.trace, model, "it", images=random_picture(64, 96), processor=other) == (
        "the text has 27 image tokens and OneTokenTooFew makes 28 patches or squares of patches, so no token has a "
        "known place; regard.watching(model) records the attention without tokens."
    )
