"""Tests of traces of MLlama: tiles as one sequence with empty tiles, and cross-attention, against eager attention."""

import numpy as np
import pytest
import torch
from patches import changed_tokens, with_inverted
from random_models import (
    TEXT,
    assert_weights,
    block_diagonal,
    eager_softmaxes,
    random_picture,
    sharp,
    tokenizer_with,
    without_vision_attention,
)
from torch.testing import assert_close
from transformers import MllamaConfig, MllamaForConditionalGeneration, MllamaProcessor
from transformers.models.mllama.configuration_mllama import MllamaTextConfig, MllamaVisionConfig
from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil

import regard
from regard.tracing.tokens.places import Patch

WIDE, SQUARE = random_picture(32, 64), random_picture(32, 32, seed=1)


@pytest.fixture(scope="module")
def mllama(minilm):
    """A MLlama with room for 4 tiles of 4 × 4 patches, whose text layer 1 is cross-attention, with its processor."""
    tokenizer = tokenizer_with(minilm, "<|image|>")
    tokenizer.bos_token = tokenizer.cls_token
    config = MllamaConfig(
        vision_config=MllamaVisionConfig(
            hidden_size=24, num_hidden_layers=3, num_global_layers=2, attention_heads=4, intermediate_size=37,
            image_size=32, patch_size=8, vision_output_dim=72, intermediate_layers_indices=[0, 2],
        ),
        text_config=MllamaTextConfig(
            **TEXT | {"num_hidden_layers": 3}, cross_attention_layers=[1], pad_token_id=0, bos_token_id=101,
            eos_token_id=102, rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<|image|>"),
    )  # fmt: skip
    model = sharp(MllamaForConditionalGeneration(config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "gate" in name:
                parameter.fill_(1.0)  # 0 in a new model, whose text then does not learn of the picture
    pictures = MllamaImageProcessorPil(size={"height": 32, "width": 32}, max_image_tiles=4)
    return model, MllamaProcessor(pictures, tokenizer)


def test_every_layer_is_that_of_eager_attention(mllama):
    model, processor = mllama
    inputs = processor(images=[WIDE, SQUARE], text="<|image|><|image|>it", return_tensors="pt")
    *vision, first, across, last = eager_softmaxes(model, inputs)
    trace = regard.trace(model, "it", images=[WIDE, SQUARE], processor=processor)
    assert (list(trace.encoder), list(trace.decoder), list(trace.cross)) == ([0, 1, 2, 3, 4], [0, 2], [1])
    assert_weights(trace.encoder, map(block_diagonal, vision), rtol=1e-4, atol=1e-5)
    for pattern, weights in ((trace.decoder[0], first), (trace.cross[1], across), (trace.decoder[2], last)):
        assert_close(pattern.dense(), weights, rtol=1e-4, atol=1e-5)
    assert trace.check().max_error < 1e-4


def test_each_tile_has_a_class_token_and_its_patches_and_empty_tiles_have_no_place(mllama):
    model, processor = mllama
    trace = regard.trace(model, "it", images=[WIDE, SQUARE], processor=processor)

    def tile(image, left):
        return [None, *(Patch(image, row, left + column, 8.0, 8.0) for row, column in np.ndindex(4, 4))]

    empty = [None] * 17
    places = [*tile(0, 0), *tile(0, 4), *empty * 2, *tile(1, 0), *empty * 3]
    assert [token.place for token in trace.source] == places
    assert [token.text for token in trace.source[32:36]] == ["0:3,6", "0:3,7", "[CLS]", "[EMPTY]"]
    assert [image.shape[1:] for image in trace.images] == [(32, 64), (32, 32)]
    assert trace["cross L1H0"].keys == trace.source
    in_vision = trace["encoder L0H0"].keys
    assert [token for token in in_vision if token.text != "[PADDING]"] == list(trace.source)
    assert [token.text == "[PADDING]" for token in in_vision] == [*[False] * 17, *[True] * 7] * 8  # to 24 tokens
    weights = trace["cross L1H0"].row("it")
    assert weights[[token.text == "[EMPTY]" for token in trace.source]].sum() == 0


def test_a_patch_of_the_picture_is_where_the_trace_says(mllama):
    model, processor = mllama
    model, changed = without_vision_attention(model), with_inverted(WIDE, np.s_[8:16, 40:48])
    one, other = (
        regard.trace(model, "it", images=[SQUARE, picture], processor=processor) for picture in (WIDE, changed)
    )
    for head in ("encoder L1H0", "cross L1H0"):
        assert [token.text for token in changed_tokens(one, other, head, side="key")] == ["1:1,5"]


def test_new_tokens_attend_to_the_pictures_too(mllama):
    model, processor = mllama
    inputs = processor(images=WIDE, text="<|image|>it", return_token_type_ids=False, return_tensors="pt")
    ids = model.generate(**inputs, max_new_tokens=3, min_new_tokens=3)
    trace = regard.trace(model, "it", images=WIDE, processor=processor, new_tokens=3)
    assert [token.position for token in trace.written] == [5, 6, 7]
    assert trace.cross[1].shape == (1, 4, ids.shape[1], 4 * 17)
    mask = inputs["cross_attention_mask"]
    whole = inputs | {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "cross_attention_mask": torch.cat([mask, *[mask[:, -1:]] * 3], dim=1),
    }
    assert_close(trace.cross[1].dense(), eager_softmaxes(model, whole)[-2], rtol=1e-4, atol=1e-5)
