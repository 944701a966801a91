"""Tests of traces of Swin: its windows as one pattern over the patches, against eager attention, window by window."""

from contextlib import ExitStack

import numpy as np
import pytest
import torch
import transformers
from patches import changed_tokens, patches, with_inverted
from PIL import Image
from random_models import block_diagonal, eager_softmaxes
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import Ask, InputError
from regard.tracing.tokens.id_tokens import IdTokens
from regard.tracing.tokens.places import Patch

PICTURE, OTHER = (
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (32, 64, 3), dtype=np.uint8)) for seed in (0, 1)
)
PROCESSOR = transformers.ViTImageProcessorPil(size={"height": 32, "width": 64})


def made(kind=transformers.SwinModel, config=transformers.SwinConfig, **changes):
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
    ("kind", "config"),
    [
        (transformers.SwinModel, transformers.SwinConfig),
        (transformers.DonutSwinModel, transformers.DonutSwinConfig),
        (transformers.Swinv2Model, transformers.Swinv2Config),
    ],
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
            for image, row, column in np.ndindex(n_pictures, *padded)
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
    processor = transformers.ViTImageProcessorPil(size={"height": 30, "width": 34})
    expected = window_by_window(made(), [PICTURE], processor)
    trace = regard.trace(made(), images=[PICTURE], processor=processor)
    fine, coarse = ((8, 9), (8, 12), 4), ((4, 5), (4, 8), 4)
    check_stages(trace, expected, 1, [(*fine, 0), (*fine, 2), (*coarse, 0), (*coarse, 0)])


def test_the_memory_of_joined_windows_does_not_grow_with_the_square_of_the_patches():
    taller = transformers.ViTImageProcessorPil(size={"height": 128, "width": 64})
    small, large = (regard.trace(made(), images=PICTURE, processor=one) for one in (PROCESSOR, taller))
    numbers = [one.attended["encoder"][1].pattern.score.bias.bias.blocks.numel() for one in (small, large)]
    assert numbers[1] == 4 * numbers[0]


def test_a_patch_of_the_picture_is_where_the_trace_says():
    images = PICTURE, with_inverted(PICTURE, np.s_[20:24, 36:40])
    one, other = (regard.trace(made(), images=image, processor=PROCESSOR, layers=[0, 1]) for image in images)
    assert [token.text for token in changed_tokens(one, other, "L0H0")] == ["5,9"]


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
    encoder = transformers.DonutSwinConfig(
        image_size=(32, 64), patch_size=4, embed_dim=12, depths=[2, 2], num_heads=[2, 4], window_size=3
    )
    sizes = {"decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 32, "encoder_layers": 0}
    decoder = transformers.MBartConfig(vocab_size=101, d_model=24, is_decoder=True, add_cross_attention=True, **sizes)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    model = transformers.VisionEncoderDecoderModel(config).eval()
    model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = 2
    trace = regard.trace(model, images=PICTURE, processor=PROCESSOR, tokenizer=IdTokens(), new_tokens=3)
    assert [token.place for token in trace.source] == patches(1, 4, 8, 8.0)
    assert trace["cross L1H0"].keys == trace.source
    assert len(trace["encoder L3H0"].keys) == 6 * 9
    stages = [trace.stage(of) for of in ("encoder L0H0", 3, "cross L0H0", None)]
    assert [stage.kinds for stage in stages] == [("encoder",), ("encoder",), ("decoder", "cross"), ("decoder", "cross")]


def test_what_needs_the_same_tokens_in_all_layers_is_refused():
    trace = regard.trace(made(), images=PICTURE, processor=PROCESSOR)
    expected = (
        "the layers of this trace have different tokens (128 in layers 0 to 1, 32 in layers 2 to 3); use a part of it, "
        "such as trace.stage(0)."
    )
    for ask in (trace.rollout, lambda token: trace.words(), lambda token: trace.roles()):
        assert refusal(InputError, ask, "3,7") == expected
    assert refusal(InputError, regard.compare, trace, trace) == expected
    assert refusal(InputError, trace.stage, 5) == "no layer 5 to show: layers run from 0 to 3; nearest: 3."


@KINDS
@pytest.mark.parametrize("window_size", [4, 3])
def test_statistics_of_windows_are_those_of_the_patterns_over_the_patches(kind, config, window_size):
    ask = Ask(entropy=True, distance=True, first=True, top=3, pooled=(5, 3))
    options = {"images": [PICTURE, OTHER], "processor": PROCESSOR}
    model = made(kind, config, window_size=window_size)
    expected = window_by_window(made(kind, config, window_size=window_size), [PICTURE, OTHER])
    trace, whole = regard.trace(model, ask=ask, **options), regard.trace(model, **options)
    assert (trace.source, trace.sources) == (whole.source, whole.sources)
    padded = {4: [(8, 16), (8, 16), (4, 8), (4, 8)], 3: [(9, 18), (9, 18), (6, 9), (6, 9)]}[window_size]
    shifts = {4: [0, 2, 0, 0], 3: [0, 1, 0, 1]}[window_size]
    for layer, (grid, shift) in enumerate(zip(padded, shifts, strict=True)):
        pictures = [in_rows(part, *grid, window_size, shift) for part in expected[layer].chunk(2)]
        weights = block_diagonal(torch.stack(pictures)).double()
        n = weights.shape[-1]
        distance = (torch.arange(n)[:, None] - torch.arange(n)).abs()
        stored = trace.encoder[layer].answer(ask)
        close = {"rtol": 1e-4, "atol": 1e-4, "check_dtype": False}
        assert_close(stored.received, weights.sum(2), **close)
        assert_close(stored.entropy, torch.special.entr(weights).sum(3), **close)
        assert_close(stored.distance, (weights * distance).sum(3), rtol=1e-4, atol=1e-3, check_dtype=False)
        assert_close(stored.first, weights[..., 0], **close)
        assert_close(stored.top.weights, weights.topk(3).values, **close)
        assert_close(weights.gather(3, stored.top.keys.long()), stored.top.weights, **close)
        rows, columns = (torch.arange(n) * cells // n for cells in (5, 3))
        for row, column in np.ndindex(5, 3):
            cell = weights[0][:, rows == row][..., columns == column]
            assert_close(stored.pooled[0, :, row, column], cell.mean(dim=(1, 2)), **close)
    message = refusal(InputError, lambda: trace["L1H0"]["0:5,9"])
    assert message.startswith("this pattern has statistics and no single weights")


def test_groups_of_keys_that_do_not_fit_a_stage_are_refused():
    ask = Ask(groups=torch.ones(1, 128, dtype=torch.bool))
    assert refusal(InputError, regard.trace, made(), images=PICTURE, processor=PROCESSOR, ask=ask) == (
        "ask=… does not fit the attention in encoder.layers.1.blocks.0.attention: groups of dtype torch.bool and shape "
        "[1, 128] over 32 keys; give a boolean tensor of shape [groups 32], True = in the group. It must fit every "
        "layer: leave groups out for a model such as Swin, whose layers have different keys."
    )


@KINDS
def test_vectors_of_the_patches_are_kept_in_windows_too(kind, config, tmp_path):
    """Compare with the model's own hidden states, and what attention adds with weights · value · W_O of the windows."""
    model = made(kind, config)
    trace = regard.trace(model, images=[PICTURE, OTHER], processor=PROCESSOR, keep=("hidden",))
    inputs = PROCESSOR(images=[PICTURE, OTHER], return_tensors="pt")
    blocks = [block for stage in model.encoder.layers for block in stage.blocks]
    seen, added = {}, {}
    with ExitStack() as hooks:
        for n, block in enumerate(blocks):
            for module, note in (
                (block, lambda _, args, output, n=n: seen.update({n: (args[0], output[0])})),
                (block.attention, lambda _, args, output, n=n: added.update({n: output[0]})),
            ):
                hooks.callback(module.register_forward_hook(note).remove)
        with torch.no_grad():
            model(**inputs)
    for n, (before, after) in seen.items():
        states = trace.states["encoder"][n]
        assert_close(states.before, before.flatten(0, 1))
        assert_close(states.after, after.flatten(0, 1))
        columns, shift = {0: (4, 0), 1: (4, 2), 2: (2, 0), 3: (2, 0)}[n]  # of windows of 4 × 4 patches
        by_window = added[n].view(2, -1, columns, 4, 4, added[n].shape[-1]).transpose(2, 3)
        by_row = by_window.reshape(2, -1, columns * 4, added[n].shape[-1]).roll((shift, shift), dims=(1, 2))
        assert_close(states.attention, by_row.flatten(0, 2))
    for of, patch in ((0, "1:5,9"), (2, "1:3,7")):
        stage = trace.stage(of)
        assert list(stage.states["encoder"]) == list(stage.encoder)
        moved = stage.movement(patch)
        total = moved.before + moved.attention + moved.feed_forward + moved.rest
        assert_close(total, moved.after, rtol=1e-4, atol=1e-4)
        if kind is not transformers.Swinv2Model:  # its norms are after attention and after the feed-forward part
            assert float(moved.rest.abs().max()) < 1e-4
        assert_close(moved.by_source.sum(1) + moved.bias, moved.attention, rtol=1e-4, atol=1e-4)
        assert stage.rollout(patch).sum() == pytest.approx(1.0, abs=1e-4)
        lengths = stage.contributions(patch, of + 1).lengths
        weights = stage.encoder[of + 1][0, :, [token.text for token in stage.tokens].index(patch)]
        assert torch.equal(lengths > 0, weights > 0)
    assert refusal(InputError, trace.movement, "1:3,7").startswith("the layers of this trace have different tokens")
    loaded = regard.Trace.load(trace.save(tmp_path / "states.safetensors"))
    assert torch.equal(loaded.states["encoder"][1].attention, trace.states["encoder"][1].attention)


def test_vectors_of_windows_with_padding_are_refused():
    options = {"images": PICTURE, "processor": PROCESSOR, "keep": ("hidden",)}
    assert refusal(InputError, regard.trace, made(window_size=3), **options) == (
        "the vectors of the layer of encoder.layers.0.blocks.0.attention cannot be kept: its windows have padding, "
        "which has no vectors before and after the layer; trace without keep=…."
    )
