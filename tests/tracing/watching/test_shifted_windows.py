"""Tests of traces of Swin: its windows as one pattern over the patches, against eager attention, window by window."""

import numpy as np
import pytest
import torch
from PIL import Image
from random_models import block_diagonal, eager_softmaxes
from refusals import refusal
from torch.testing import assert_close
from transformers import (
    DonutSwinConfig,
    DonutSwinModel,
    MBartConfig,
    SwinConfig,
    SwinModel,
    Swinv2Config,
    Swinv2Model,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
    ViTImageProcessorPil,
)

import regard
from regard import Ask, InputError
from regard.tracing.tokens.id_tokens import IdTokens
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


def window_by_window(model, pictures, processor=PROCESSOR):
    """The eager weights [windows heads side² side²] of each call of the attention's softmax, layer by layer."""
    return eager_softmaxes(model, {"pixel_values": processor(images=pictures, return_tensors="pt")["pixel_values"]})


def in_rows(windows, rows, columns, side, shift):
    """The weights of all windows as one matrix over the patches of one picture, row by row, worked out in a loop.

    `rows` and `columns` are multiples of `side`: they count the padding too.
    """
    whole = torch.zeros(windows.shape[1], rows * columns, rows * columns)

    def position(window, token):
        across = columns // side
        row, column = window // across * side + token // side, window % across * side + token % side
        return (row + shift) % rows * columns + (column + shift) % columns

    for window, weights in enumerate(windows):
        for query in range(side**2):
            for key in range(side**2):
                whole[:, position(window, query), position(window, key)] = weights[:, query, key]
    return whole


KINDS = pytest.mark.parametrize(
    ("kind", "config"), [(SwinModel, SwinConfig), (DonutSwinModel, DonutSwinConfig), (Swinv2Model, Swinv2Config)]
)


def check_stages(trace, expected, n_pictures, stages):
    """Compare all layers of a trace with the weights of its windows, and its tokens with the patches of each stage.

    Args:
        stages: for each layer, (rows, columns) of patches, the same with padding, the side of a window, and its shift.
    """
    assert sorted(trace.encoder) == list(range(len(stages)))
    for layer, (grid, padded, side, shift) in enumerate(stages):
        pictures = [in_rows(part, *padded, side, shift) for part in expected[layer].chunk(n_pictures)]
        assert_close(trace.encoder[layer].dense(), block_diagonal(torch.stack(pictures)), rtol=1e-4, atol=1e-5)
        size = 4.0 if layer < 2 else 8.0
        assert [token.place for token in trace[f"L{layer}H0"].keys] == [
            Patch(image, row, column, size, size) if row < grid[0] and column < grid[1] else None
            for image in range(n_pictures)
            for row in range(padded[0])
            for column in range(padded[1])
        ]
    assert trace.check().max_error < 1e-4


@KINDS
def test_windows_of_all_stages_are_patterns_over_the_patches(kind, config):
    expected = window_by_window(made(kind, config), [PICTURE, OTHER])
    trace = regard.trace(made(kind, config), images=[PICTURE, OTHER], processor=PROCESSOR)
    fine, coarse = ((8, 16), (8, 16), 4), ((4, 8), (4, 8), 4)  # four rows of patches have room for one row of windows
    check_stages(trace, expected, 2, [(*fine, 0), (*fine, 2), (*coarse, 0), (*coarse, 0)])
    assert trace.source == trace.sources[3]


@KINDS
def test_windows_with_padding_are_patterns_over_the_patches_and_the_padding(kind, config):
    expected = window_by_window(made(kind, config, window_size=3), [PICTURE, OTHER])
    trace = regard.trace(made(kind, config, window_size=3), images=[PICTURE, OTHER], processor=PROCESSOR)
    fine, coarse = ((8, 16), (9, 18), 3), ((4, 8), (6, 9), 3)
    check_stages(trace, expected, 2, [(*fine, 0), (*fine, 1), (*coarse, 0), (*coarse, 1)])
    is_padding = [token.place is None for token in trace.source]
    assert {token.text for token in trace.source if token.place is None} == {"[PADDING]"}
    assert trace["L2H0"]["0:3,7"][is_padding].sum() > 0  # the model does not mask padding


def test_pictures_that_are_no_multiple_of_the_patches_have_patches_beyond_their_edge():
    processor = ViTImageProcessorPil(size={"height": 30, "width": 34})
    expected = window_by_window(made(), [PICTURE], processor)
    trace = regard.trace(made(), images=[PICTURE], processor=processor)
    fine, coarse = ((8, 9), (8, 12), 4), ((4, 5), (4, 8), 4)
    check_stages(trace, expected, 1, [(*fine, 0), (*fine, 2), (*coarse, 0), (*coarse, 0)])


def test_the_memory_of_joined_windows_does_not_grow_with_the_square_of_the_patches():
    small, large = (
        regard.trace(made(), images=PICTURE, processor=ViTImageProcessorPil(size={"height": height, "width": 64}))
        for height in (32, 128)
    )
    numbers = [one.attended["encoder"][1].pattern.score.bias.bias.blocks.numel() for one in (small, large)]
    assert numbers[1] == 4 * numbers[0]


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
    trace = regard.trace(made(window_size=3), images=PICTURE, processor=PROCESSOR)
    loaded = regard.Trace.load(trace.save(tmp_path / "windows.safetensors"))
    assert all(torch.equal(loaded.encoder[layer].dense(), trace.encoder[layer].dense()) for layer in range(4))
    assert (loaded.source, loaded.sources) == (trace.source, trace.sources)
    drawn = trace.figure(tmp_path / "windows.svg", token="5,9", head="L1H0").read_text()
    assert all(f'id="{name}"' in drawn for name in ("image", "weights", "query"))


def test_a_stage_is_a_trace_of_the_layers_with_the_same_patches(capsys):
    trace = regard.trace(made(), images=PICTURE, processor=PROCESSOR)
    fine, coarse = trace.stage("L0H0"), trace.stage()
    assert (list(fine.encoder), list(coarse.encoder)) == ([0, 1], [2, 3])
    assert (fine.source, coarse.source) == (trace.sources[1], trace.sources[2])
    assert list(trace.stage(1).encoder) == [0, 1]
    assert fine.stage() is fine
    assert fine.rollout("5,9").shape == (128,)
    assert regard.compare(fine, fine).first is None
    trace.show("5,9", "L1H1")
    assert "in L1H1, at" in capsys.readouterr().out
    trace.show("3,7")
    assert "2 layers" in capsys.readouterr().out


def test_cross_attention_attends_to_the_patches_of_the_last_layer_without_padding():
    torch.manual_seed(0)
    encoder = DonutSwinConfig(
        image_size=(32, 64), patch_size=4, embed_dim=12, depths=[2, 2], num_heads=[2, 4], window_size=3
    )
    sizes = {"decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 32, "encoder_layers": 0}
    decoder = MBartConfig(vocab_size=101, d_model=24, is_decoder=True, add_cross_attention=True, **sizes)
    model = VisionEncoderDecoderModel(VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)).eval()
    model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = 2
    trace = regard.trace(model, images=PICTURE, processor=PROCESSOR, tokenizer=IdTokens(), new_tokens=3)
    assert [token.place for token in trace.source] == [Patch(0, r, c, 8.0, 8.0) for r in range(4) for c in range(8)]
    assert trace["cross L1H0"].keys == trace.source
    assert len(trace["encoder L3H0"].keys) == 6 * 9
    stages = [trace.stage(of) for of in ("encoder L0H0", 3, "cross L0H0", None)]
    assert [stage.kinds for stage in stages] == [("encoder",), ("encoder",), ("decoder", "cross"), ("decoder", "cross")]


def test_what_needs_the_same_tokens_in_all_layers_is_refused():
    trace = regard.trace(made(), images=PICTURE, processor=PROCESSOR)
    expected = (
        "the layers of this trace have different tokens (128 in layers 0 to 1, 32 in layers 2 to 3); ask a part of it, "
        "such as trace.stage(0)."
    )
    for ask in (trace.rollout, lambda token: trace.words(), lambda token: trace.roles()):
        assert refusal(InputError, ask, "3,7") == expected
    assert refusal(InputError, regard.compare, trace, trace) == expected
    assert refusal(InputError, trace.stage, 5) == "no layer 5 to show: layers run from 0 to 3; nearest: 3."


def test_vectors_and_statistics_of_windows_are_refused():
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
