"""Tests of traces of models for pictures and recordings: the area or time of each token, and the model's weights."""

import math
import re

import numpy as np
import pytest
import torch
import transformers
from patches import changed_tokens, patches, places, with_inverted
from PIL import Image
from random_models import assert_weights, block_diagonal, eager_outputs, sharp
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import Ask, InputError

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8))
INVERTED = with_inverted(PICTURE, np.s_[:])
WAVE = np.sin(np.arange(16_000) / 20).astype(np.float32)
PROCESSOR, SQUARES = (transformers.ViTImageProcessorPil(size={"height": height, "width": 64}) for height in (48, 64))
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 16}
SQUARE_SIZES = {"patch_size": [16, 16], "image_size": [64, 64]}
VIT = transformers.ViTConfig(**SIZES, intermediate_size=37, image_size=(48, 64))


@pytest.fixture(scope="module")
def vit():
    return sharp(transformers.ViTModel(VIT))


def test_a_vision_model_has_its_own_weights_over_patches(vit):
    trace = regard.trace(vit, images=PICTURE, processor=PROCESSOR)
    inputs = PROCESSOR(images=PICTURE, return_tensors="pt")
    assert_weights(trace.encoder, eager_outputs(vit, inputs).attentions, rtol=1e-4, atol=1e-6)
    assert [token.text for token in trace.tokens[:3]] == ["[CLS]", "0,0", "0,1"]
    assert trace.tokens[0].special
    assert trace.tokens[0].place is None
    assert [token.place for token in trace.tokens[1:]] == patches(1, 3, 4, 16.0)
    assert [image.shape for image in trace.images] == [(3, 48, 64)]
    resized = torch.from_numpy(np.asarray(PICTURE.resize((64, 48), Image.Resampling.BILINEAR)).copy()).permute(2, 0, 1)
    assert_close(trace.images[0], resized / 255, rtol=0, atol=0.01)
    assert trace["L1H2"]["2,3"].shape == (13,)


@pytest.mark.parametrize(
    ("kind", "settings", "n_tokens"),
    [
        (transformers.Dinov2Model, transformers.Dinov2Config, 17),
        (transformers.CLIPVisionModel, transformers.CLIPVisionConfig, 17),
        (transformers.SiglipVisionModel, transformers.SiglipVisionConfig, 16),
    ],
)
@pytest.mark.filterwarnings("ignore:the attention of .*head.attention is outside the layers:UserWarning")
def test_relatives_of_the_vision_transformer_have_their_own_weights(kind, settings, n_tokens):
    model = sharp(kind(settings(**SIZES, image_size=64)))
    trace = regard.trace(model, images=PICTURE, processor=SQUARES)
    assert (len(trace.tokens), sorted(trace.encoder)) == (n_tokens, [0, 1])
    expected = eager_outputs(model, SQUARES(images=PICTURE, return_tensors="pt")).attentions
    assert_weights(trace.encoder, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("patch_size", [(8, 16), (16, 8)])
def test_a_patch_that_is_no_square_has_its_own_height_and_width(patch_size):
    model = sharp(transformers.ViTModel(transformers.ViTConfig(**SIZES | {"patch_size": patch_size}, image_size=64)))
    assert_patch_in_its_place(model, row=2, column=1, size=patch_size)


@pytest.mark.parametrize("n_detections", [3, 20])
def test_the_detection_tokens_of_yolos_follow_the_patches(n_detections):
    config = transformers.YolosConfig(**SIZES, image_size=[64, 64], num_detection_tokens=n_detections)
    trace = assert_patch_in_its_place(sharp(transformers.YolosModel(config)), row=2, column=1, size=(16, 16))
    assert [token.text for token in trace.tokens[15:19]] == ["3,2", "3,3", "[DETECTION 0]", "[DETECTION 1]"]
    assert len(trace.tokens) == 17 + n_detections


def assert_patch_in_its_place(model, row, column, size):
    """Invert one patch of a picture: in the first layer, only the query of its own token changes. Return the trace."""
    height, width = size
    box = np.s_[row * height : (row + 1) * height, column * width : (column + 1) * width]
    image = np.asarray(PICTURE.resize((64, 64)))
    one, other = (
        regard.trace(model, images=picture, processor=SQUARES) for picture in (image, with_inverted(image, box))
    )
    (token,) = changed_tokens(one, other, "encoder L0H0")
    assert (token.place.row, token.place.column) == (row, column)
    assert (token.place.height, token.place.width) == size
    return one


def test_a_masked_autoencoder_shuffles_its_patches():
    config = transformers.ViTMAEConfig(**SIZES, image_size=64, mask_ratio=0.0)
    model = transformers.ViTMAEModel(config)
    assert refusal(InputError, regard.trace, model, images=PICTURE, processor=SQUARES) == (
        "ViTMAEModel reads the patches of a picture in a random order, so no token has a known place; load its "
        "parameters as a ViTModel, or record the attention without tokens by regard.watching(model)."
    )


def test_patches_that_begin_outside_of_the_picture_are_refused():
    """ViTPose's patch at (row, column) begins at 16 · row - 2, 16 · column - 2."""
    backbone = transformers.VitPoseBackbone(transformers.VitPoseBackboneConfig(**SIZES | SQUARE_SIZES))
    assert refusal(InputError, regard.trace, backbone, images=PICTURE, processor=SQUARES) == (
        "VitPoseBackbone and ViTImageProcessorPil do not divide pictures into patches in a way that regard knows, so "
        "no token has a place in them; regard.watching(model) records the attention without tokens."
    )


class OneSequence:
    """A processor of pictures and text as ViLT has one."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, images, text, return_tensors):
        pixels = SQUARES(images=images, return_tensors=return_tensors)
        return {**pixels, **self.tokenizer(text, return_tensors=return_tensors)}


def test_text_and_patches_in_one_sequence_are_refused(minilm):
    """ViLT reads the patches in a random order, after the text."""
    model = transformers.ViltModel(transformers.ViltConfig(**SIZES, vocab_size=30522, image_size=64))
    assert refusal(
        InputError, regard.trace, model, "a dog", images=PICTURE, processor=OneSequence(minilm.tokenizer)
    ) == (
        "ViltModel reads the text and the patches of the picture as one sequence, so no token has a known place; "
        "regard.watching(model) records the attention without tokens."
    )


@pytest.mark.filterwarnings("ignore:the attention of char_a3_module is outside the layers:UserWarning")
def test_logits_of_several_heads_of_a_model_are_left_out():
    config = transformers.MgpstrConfig(**SIZES, image_size=[64, 64])
    model = transformers.MgpstrForSceneTextRecognition(config)
    trace = regard.trace(model, images=PICTURE, processor=SQUARES)  # its logits are three tensors in a tuple
    assert (trace.output, len(trace.tokens)) == (None, 17)


def test_each_of_several_pictures_attends_to_itself(vit, tmp_path):
    trace = regard.trace(vit, images=[PICTURE, INVERTED], processor=PROCESSOR)
    inputs = PROCESSOR(images=[PICTURE, INVERTED], return_tensors="pt")
    assert_weights(trace.encoder, map(block_diagonal, eager_outputs(vit, inputs).attentions), rtol=1e-4, atol=1e-6)
    assert trace.check().max_error < 1e-4
    assert [token.text for token in trace.tokens[:3]] == ["[CLS]", "0:0,0", "0:0,1"]
    assert places(trace.tokens) == patches(2, 3, 4, 16.0)
    assert trace.output.shape == (1, 26, 24)
    kept, alone = (
        regard.trace(vit, images=images, processor=PROCESSOR, keep=("hidden",))
        for images in ([PICTURE, INVERTED], INVERTED)
    )
    for name in ("before", "attention", "feed_forward", "after"):
        assert_close(getattr(kept.movement("1:2,3"), name), getattr(alone.movement("2,3"), name), rtol=1e-4, atol=1e-5)
    lengths, expected = kept.contributions("1:2,3", 1).lengths[:, 13:], alone.contributions("2,3", 1).lengths
    assert_close(lengths, expected, rtol=1e-4, atol=1e-5)
    loaded = regard.Trace.load(trace.save(tmp_path / "pictures.safetensors"))
    assert loaded.tokens == trace.tokens
    assert all(map(torch.equal, loaded.images, trace.images))
    assert torch.equal(loaded.encoder[1].dense(), trace.encoder[1].dense())


def test_several_pictures_can_be_traced_with_statistics_alone(vit):
    pictures = [PICTURE, INVERTED]
    first_patches = torch.arange(13) == 1
    ask = Ask(top=3, pooled=(5, 3), groups=first_patches[None])
    of_both = Ask(pooled=(5, 3), groups=first_patches.repeat(1, 2))
    trace = regard.trace(vit, images=pictures, processor=PROCESSOR, ask=ask)
    inputs = PROCESSOR(images=pictures, return_tensors="pt")
    for pattern, weights in zip(trace.encoder.values(), eager_outputs(vit, inputs).attentions, strict=True):
        whole = block_diagonal(weights)
        top = pattern.answer(Ask(top=3)).top
        numbers = pattern.answer(of_both)
        parts = [torch.arange(26) * n // 26 for n in (5, 3)]
        for row, column in np.ndindex(5, 3):
            cell = whole[0][:, parts[0] == row][..., parts[1] == column]
            assert_close(numbers.pooled[0, :, row, column], cell.mean(dim=(1, 2)), rtol=1e-4, atol=1e-6)
        assert_close(numbers.groups[..., 0], whole[..., 1] + whole[..., 14], rtol=1e-4, atol=1e-6)
        assert_close(pattern.received(), whole.sum(dim=2), rtol=1e-4, atol=1e-5)
        assert_close(pattern.entropy(), torch.special.entr(whole).sum(dim=3), rtol=1e-4, atol=1e-5)
        assert_close(top.weights, whole.topk(3).values, rtol=1e-4, atol=1e-6)
        assert torch.equal(top.keys, whole.topk(3).indices)
    assert [token.text for token in trace.tokens[13:15]] == ["[CLS]", "1:0,0"]


def test_attention_outside_the_layers_is_told():
    model = transformers.SiglipVisionModel(transformers.SiglipVisionConfig(**SIZES, image_size=64))
    message = (
        "the attention of head.attention is outside the layers, so it is not in the trace; regard.watching(model) "
        "records it."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        regard.trace(model, images=PICTURE, processor=SQUARES)


def test_a_cut_in_a_model_of_pictures_and_text_stays_in_its_kind(llava, minilm):
    processor = SquarePictureAndText(minilm.tokenizer)

    def traced(*changes):
        return regard.trace(llava, "what is it", images=PICTURE, processor=processor, changes=changes)

    assert refusal(InputError, traced, regard.Cut("it", "0,1")) == (
        "Cut(query='it', key='0,1', heads=None) must name heads of one kind, since the tokens of each kind differ: for "
        "instance heads=['cross'] or heads=['decoder L0H1']."
    )
    plain, cut = traced(), traced(regard.Cut("it", "0,1", ["decoder"]))
    assert cut["decoder L0H1"]["it", "0,1"] == 0.0 < plain["decoder L0H1"]["it", "0,1"]
    assert all(torch.equal(cut.encoder[n].dense(), plain.encoder[n].dense()) for n in plain.encoder)


def test_a_picture_shows_where_a_patch_looks(vit, tmp_path, capsys):
    trace = regard.trace(vit, images=PICTURE, processor=PROCESSOR)
    drawing = trace.figure(tmp_path / "picture.svg", token="1,2", head="L0H1").read_text()
    assert all(f'id="{name}"' in drawing for name in ("image", "weights", "query"))
    trace.show(token="1,2", head="L0H1")
    lines = capsys.readouterr().out.splitlines()
    first = next(number for number, line in enumerate(lines) if "looks, in L0H1, at" in line)
    grid = [line[2:10] for line in lines[first + 2 : first + 5]]
    assert grid[1][4:6] == "[]"
    strongest = int(trace["L0H1"]["1,2"][1:].argmax())
    if strongest != 6:
        assert grid[strongest // 4][2 * (strongest % 4)] == "█"


class PictureAndText:
    """A processor of pictures and text as LLaVA has one: an image token for each patch."""

    image_token = "[unused1]"

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, images, text, return_tensors):
        pixels = PROCESSOR(images=images, return_tensors=return_tensors)["pixel_values"]
        encoded = self.tokenizer(text.replace(self.image_token, ""), return_tensors=return_tensors)
        image = torch.full((1, 12), self.tokenizer.convert_tokens_to_ids(self.image_token))
        ids = torch.cat([encoded["input_ids"][:, :1], image, encoded["input_ids"][:, 1:]], dim=1)
        return {"pixel_values": pixels, "input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.fixture(scope="module")
def llava(minilm):
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=37, image_size=64,
            patch_size=16,
        ),
        text_config=transformers.LlamaConfig(
            vocab_size=30522, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=37,
        ),
        image_token_id=minilm.tokenizer.convert_tokens_to_ids("[unused1]"),
    )  # fmt: skip
    return sharp(transformers.LlavaForConditionalGeneration(config))


class SquarePictureAndText(PictureAndText):
    def __call__(self, images, text, return_tensors):
        encoded = super().__call__(images, text, return_tensors)
        image = torch.full((1, 4), int(encoded["input_ids"][0, 1]))
        ids = torch.cat([encoded["input_ids"][:, :1], image, encoded["input_ids"][:, 1:]], dim=1)
        pixels = SQUARES(images=images, return_tensors=return_tensors)["pixel_values"]
        return {"pixel_values": pixels, "input_ids": ids, "attention_mask": torch.ones_like(ids)}


class TwoSquarePictures(SquarePictureAndText):
    """A processor of two pictures and text: a run of 16 image tokens for each picture."""

    def __call__(self, images, text, return_tensors):
        encoded = super().__call__(images, text, return_tensors)
        ids = encoded["input_ids"]
        ids = torch.cat([ids[:, :17], ids[:, 1:]], dim=1)
        return encoded | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_a_model_of_pictures_and_text_has_both_attentions(llava, minilm, tmp_path):
    processor = SquarePictureAndText(minilm.tokenizer)
    trace = regard.trace(llava, "what is it", images=PICTURE, processor=processor)
    inputs = processor(PICTURE, "what is it", "pt")
    assert trace.kinds == ("encoder", "decoder")
    assert [len(trace.source), len(trace.target)] == [17, 21]
    words = [token.text for token in trace.target if token.place is None]
    assert words == ["[CLS]", "what", "is", "it", "[SEP]"]
    assert places(trace.target) == patches(1, 4, 4, 16.0)
    expected = eager_outputs(llava, inputs).attentions
    assert_weights(trace.decoder, expected, rtol=1e-3, atol=1e-5)
    assert trace.check().max_error < 1e-4
    drawing = trace.figure(tmp_path / "asked.svg", token="it", head="decoder L1H2").read_text()
    assert 'id="weights"' in drawing
    assert 'id="query"' not in drawing


class MarkedPrompt(SquarePictureAndText):
    """A processor whose token types are 0 for the prompt, as PaliGemma has one."""

    def __call__(self, images, text, return_tensors):
        encoded = super().__call__(images, text, return_tensors)
        return encoded | {"token_type_ids": torch.zeros_like(encoded["input_ids"])}


def test_paligemma_reads_its_prompt_in_both_directions_and_its_answer_causally(minilm):
    vision = transformers.SiglipVisionConfig(
        **SIZES, intermediate_size=37, image_size=64, projection_dim=24, vision_use_head=False
    )
    text = transformers.GemmaConfig(
        vocab_size=30522, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=37,
    )  # fmt: skip
    config = transformers.PaliGemmaConfig(
        vision_config=vision.to_dict(), text_config=text.to_dict(), projection_dim=24, hidden_size=24,
        image_token_id=minilm.tokenizer.convert_tokens_to_ids("[unused1]"),
    )  # fmt: skip
    model, processor = sharp(transformers.PaliGemmaForConditionalGeneration(config)), MarkedPrompt(minilm.tokenizer)
    inputs = processor(PICTURE, "what is it", "pt")
    trace = regard.trace(model, "what is it", images=PICTURE, processor=processor)
    assert_weights(trace.decoder, eager_outputs(model, inputs).attentions, rtol=1e-3, atol=1e-5)
    assert trace["decoder L0H0"]["what", "it"] > 0
    written = regard.trace(model, "what is it", images=PICTURE, processor=processor, new_tokens=3)
    model.set_attn_implementation("eager")
    options = {"max_new_tokens": 3, "do_sample": False, "return_dict_in_generate": True, "output_attentions": True}
    steps = model.generate(**inputs, **options).attentions
    n_prompt = inputs["input_ids"].shape[1]
    for n, weights in enumerate(steps):
        queries = slice(0, n_prompt) if n == 0 else [n_prompt + n - 1]
        for layer, expected in enumerate(weights):
            assert_close(written.decoder[layer][:, :, queries, : n_prompt + n], expected, rtol=1e-3, atol=1e-5)


def test_each_of_several_pictures_has_its_tokens_in_the_text(llava, minilm):
    processor = TwoSquarePictures(minilm.tokenizer)
    trace = regard.trace(llava, "what is it", images=[PICTURE, INVERTED], processor=processor)
    assert [len(trace.source), len(trace.target)] == [34, 37]
    assert places(trace.target) == patches(2, 4, 4, 16.0)
    inputs = processor([PICTURE, INVERTED], "what is it", "pt")
    assert_weights(trace.decoder, eager_outputs(llava, inputs).attentions, rtol=1e-3, atol=1e-5)
    vision = llava.model.vision_tower
    expected = eager_outputs(vision, {"pixel_values": inputs["pixel_values"]}).attentions[: len(trace.encoder)]
    assert_weights(trace.encoder, map(block_diagonal, expected), rtol=1e-3, atol=1e-5)
    changed = regard.trace(llava, "what is it", images=[PICTURE, PICTURE], processor=processor)
    assert {token.place.image for token in changed_tokens(trace, changed)} == {1}


class PictureReader:
    """A processor of pictures with the tokenizer of the text that is read off them, as TrOCR has one."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, images, return_tensors):
        return PROCESSOR(images=images, return_tensors=return_tensors)


def test_a_text_that_is_read_off_a_picture_has_all_three_kinds(minilm):
    decoder = transformers.TrOCRConfig(
        vocab_size=30522, d_model=24, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=37,
        cross_attention_hidden_size=24,
    )  # fmt: skip
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(VIT, decoder)
    config.decoder_start_token_id, config.pad_token_id = 101, 0
    model, processor = sharp(transformers.VisionEncoderDecoderModel(config)), PictureReader(minilm.tokenizer)
    trace = regard.trace(model, images=PICTURE, processor=processor, target="a dog runs")
    assert [len(trace.source), [token.text for token in trace.target]] == [13, ["[CLS]", "a", "dog", "runs"]]
    inputs = processor(PICTURE, "pt") | {"decoder_input_ids": torch.tensor([[101, 1037, 3899, 3216]])}
    expected = eager_outputs(model, inputs)
    for kind in ("encoder", "decoder", "cross"):
        assert_weights(getattr(trace, kind), getattr(expected, f"{kind}_attentions"), rtol=1e-3, atol=1e-5)


class OneTokenMissing(SquarePictureAndText):
    """A processor whose text has one image token fewer than the picture has patches."""

    def __call__(self, images, text, return_tensors):
        encoded = super().__call__(images, text, return_tensors)
        ids = torch.cat([encoded["input_ids"][:, :1], encoded["input_ids"][:, 2:]], dim=1)
        return encoded | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_image_tokens_that_form_no_grid_are_refused(llava, minilm):
    processor = OneTokenMissing(minilm.tokenizer)
    assert refusal(InputError, regard.trace, llava, "what is it", images=PICTURE, processor=processor) == (
        "the text has 15 tokens for 4 × 4 patches, which do not form a grid; regard.watching(model) records the "
        "attention without tokens."
    )


class VideoAsPictures:
    """A processor that returns the frames of a video under the name of pictures."""

    def __call__(self, videos, return_tensors):
        return PROCESSOR(images=videos, return_tensors=return_tensors)


def test_a_model_without_patches_and_patches_without_a_picture_are_refused(vit):
    resnet = transformers.ResNetModel(transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4], depths=[1]))
    for model, processor in ((resnet, PROCESSOR), (vit, transformers.Siglip2ImageProcessorPil(patch_size=16))):
        assert refusal(InputError, regard.trace, model, images=PICTURE, processor=processor) == (
            f"{type(model).__name__} and {type(processor).__name__} do not divide pictures into patches in a way that "
            "regard knows, so no token has a place in them; regard.watching(model) records the attention without "
            "tokens."
        )


def test_what_a_model_of_pictures_alone_does_not_read_is_refused(vit):
    videos, no_rate = VideoAsPictures(), "is not a number of frames per second; give a number above 0."
    for text, options, message in (
        (None, {"images": PICTURE, "target": "a dog"}, "ViTModel reads no target; leave it out."),
        ("a dog", {"images": PICTURE}, "ViTModel reads images without a text; leave the text out."),
        (None, {"audio": WAVE}, "ViTModel reads no recordings; give a model that does, such as Whisper."),
        (
            None, {"video": [PICTURE], "processor": videos},
            "ViTModel and VideoAsPictures do not divide pictures into patches in a way that regard knows, so no token "
            "has a place in them; regard.watching(model) records the attention without tokens.",
        ),
        (
            None, {"images": PICTURE, "fps": 2.0, "processor": videos},
            "fps=2.0 is the frames per second of a video; give the frames too, with video=….",
        ),
        (None, {"video": [PICTURE], "fps": 0.0}, f"fps=0.0 {no_rate}"),
        (None, {"video": [PICTURE], "fps": -1.0}, f"fps=-1.0 {no_rate}"),
        (None, {"video": [PICTURE], "fps": math.nan}, f"fps=nan {no_rate}"),
        (None, {}, "there is nothing to read; give a text, images=…, video=… or audio=…."),
        (
            None, {"images": PICTURE, "audio": WAVE},
            "a trace is of pictures, a video or a recording; give only one of images=…, video=…, audio=….",
        ),
    ):  # fmt: skip
        assert refusal(InputError, regard.trace, vit, text, **{"processor": PROCESSOR} | options) == message


def test_a_folder_without_its_processor_is_refused(vit, tmp_path):
    vit.save_pretrained(tmp_path)
    assert refusal(InputError, regard.trace, str(tmp_path), images=PICTURE) == (
        f"no processor for '{tmp_path}' could be loaded; give one with processor=…."
    )


def test_what_has_no_places_is_refused(vit):
    assert refusal(TypeError, regard.trace, vit, [1, 2], images=PICTURE) == (
        "beside images=…, video=… or audio=… the text must be a str; got a list."
    )
    tiling = transformers.LlavaNextImageProcessorPil(
        size={"shortest_edge": 48}, crop_size={"height": 48, "width": 48}, image_grid_pinpoints=[[48, 96]]
    )
    assert refusal(InputError, regard.trace, vit, images=PICTURE, processor=tiling) == (
        "ViTModel and LlavaNextImageProcessorPil do not divide pictures into patches in a way that regard knows, so no "
        "token has a place in them; regard.watching(model) records the attention without tokens."
    )
    cut = [regard.Cut("1,1", "0,0")]
    assert refusal(InputError, regard.trace, vit, images=PICTURE, processor=PROCESSOR, changes=cut) == (
        "a change that names parts of a picture or a recording needs positions: use it in regard.changed(model, "
        "changes) around the model's own call."
    )
    silent = regard.trace(vit, images=PICTURE, processor=PROCESSOR, changes=[regard.Silence("L0")])
    assert not silent.encoder[0].dense().any()
    assert refusal(InputError, regard.trace, vit, images=object(), processor=PROCESSOR).startswith(
        "ViTImageProcessorPil could not read the picture or recording: "
    )
