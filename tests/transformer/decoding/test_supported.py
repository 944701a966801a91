"""Tests of decoding steps: equal to `forward`; the kernel is used only for models that it supports."""

import pytest
import torch
from loud import loud, small
from model_laws import texts
from torch import nn
from torch.testing import assert_close

from regard import Rotary, ScaledDot, Softmax, use_backend
from regard.transformer.model import Transformer

SOURCE, LENGTHS = texts([7, 5, 3], 31), torch.tensor([7, 5, 3])
TARGET = texts([12, 12, 12], 37, seed=1)
BEAMS = torch.tensor([0, 0, 1, 1, 2, 2])

KERNEL = {"d_model": 96, "d_ff": 48}
"""Sizes that the kernel supports."""

CONFIGS = [
    {"norm": "post", **KERNEL},
    {"n_key_heads": 2, "positions": "rotary", "activation": "swiglu", **KERNEL},
    {"norm": "post", "n_key_heads": 3, "share": "none"},
    {"norm": "pre", "positions": "rotary", "activation": "swiglu", "n_key_heads": 2},
]


def new_model(**fields):
    model = loud(Transformer(small(**fields)))
    return model.float() if fields.get("d_model") else model


@pytest.mark.parametrize("fields", CONFIGS, ids=str)
@pytest.mark.parametrize("lengths", [LENGTHS, torch.tensor([7, 7, 7])], ids=["padded", "full"])
@pytest.mark.parametrize("first", [1, 3])
def test_every_step_has_the_logits_and_patterns_of_forward(fields, lengths, first):
    model = new_model(**fields)
    whole = model(SOURCE, lengths, TARGET)
    with torch.inference_mode():
        step = model.step(TARGET[:, :first], model.start(SOURCE, lengths))
        for place in range(first, 12):
            step = model.step(TARGET[:, place : place + 1], step.state)
            assert step.state.n_tokens == place + 1
            assert_close(step.logits[:, 0], whole.logits[:, place])
            for stepwise, pattern in zip(step.cross, whole.cross, strict=True):
                assert_close(stepwise.dense()[:, :, 0], pattern.dense()[:, :, place])


@pytest.mark.parametrize("fields", CONFIGS, ids=str)
def test_selected_rows_continue_and_their_states_are_unchanged(fields):
    model = new_model(**fields)
    with torch.no_grad():
        state = model.step(TARGET[:, :1], model.start(SOURCE, LENGTHS)).state
        state = model.step(TARGET[BEAMS, 1:2], state.select(BEAMS)).state
        one, other = torch.tensor([[5], [7], [11], [13], [17], [19]]), torch.tensor([[6], [8], [10], [12], [14], [16]])
        by_one = model.step(one, state)
        by_other = model.step(other, state)  # from the same state: what the first has written is still its own
        rows = torch.tensor([5, 4, 1, 0])
        after = model.step(one[:4], by_one.state.select(rows))
        again = model.step(other[:4], by_other.state.select(rows))
    for step, second, last in ((after, one, one[:4]), (again, other, other[:4])):
        target = torch.cat([TARGET[BEAMS, :2], second], dim=1)[rows]
        expected = model(SOURCE[BEAMS][rows], LENGTHS[BEAMS][rows], torch.cat([target, last], dim=1))
        assert_close(step.logits[:, 0], expected.logits[:, -1])


def decoding_of(model):
    """Return the decoding of the batch by the kernel; None if the kernel does not support the model."""
    return model.compiled_decoding(SOURCE, LENGTHS, most_rows=3, most_tokens=12)


class Widen(nn.Linear):
    """A linear layer of the user's own class."""


@pytest.mark.parametrize(
    "change",
    [
        lambda blocks: blocks[1].feed_forward.widen.register_forward_hook(lambda layer, given, output: 2 * output),
        lambda blocks: blocks[0].cross_attention.register_forward_pre_hook(lambda layer, given: (-given[0], given[1])),
        lambda blocks: setattr(blocks[0].feed_forward, "widen", Widen(96, 48)),
        lambda blocks: setattr(blocks[0].feed_forward, "forward", lambda x: x),
        lambda blocks: setattr(blocks[0].self_attention, "to_key", nn.Linear(96, 96, bias=False)),
        lambda blocks: setattr(blocks[2].cross_attention, "score", ScaledDot(softcap=3.0)),
        lambda blocks: setattr(blocks[2].self_attention, "normalise", Softmax(temperature=2.0)),
    ],
)
def test_a_changed_decoder_is_left_to_its_modules(change):
    model = new_model(**KERNEL)
    with torch.no_grad():
        assert decoding_of(model) is not None
        change(model.decoder.blocks)
        assert decoding_of(model) is None
        state = model.step(TARGET[:, :2], model.start(SOURCE, LENGTHS)).state
        step = model.step(TARGET[:, 2:3], state)
    assert_close(step.logits[:, 0], model(SOURCE, LENGTHS, TARGET).logits[:, 2])


@pytest.mark.parametrize(
    "within",
    [torch.enable_grad(), use_backend("tiled"), torch.autocast("cpu", torch.bfloat16)],
    ids=["gradients", "another backend", "autocast"],
)
def test_with_gradients_or_another_backend_or_autocast_the_kernel_is_not_used(within):
    model = new_model(**KERNEL)
    with torch.no_grad(), within:
        assert decoding_of(model) is None


def test_cross_attention_with_positions_and_hooks_of_the_decoder_are_left_to_the_modules():
    rotary, hooked = new_model(**KERNEL), new_model(**KERNEL)
    rotary.decoder.blocks[1].cross_attention.positions = Rotary()
    hooked.decoder.register_forward_hook(lambda module, given, output: None)
    with torch.no_grad():
        assert decoding_of(rotary) is None
        assert decoding_of(hooked) is None


@pytest.mark.parametrize("fields", [{}, KERNEL], ids=["without kernel", "kernel"])
def test_weights_that_are_not_finite_give_nan_and_never_zeros(fields):
    model = new_model(**fields)
    with torch.no_grad():
        model.decoder.blocks[0].self_attention.to_query.weight[0, 0] = torch.nan
        step = model.step(TARGET[:, :1], model.start(SOURCE, LENGTHS))
        assert bool(model.step(TARGET[:, 1:2], step.state).logits.isnan().all())
        if decoding := decoding_of(model):
            for tokens in TARGET.T.tolist()[:2]:
                decoding.read(tokens, range(3))
            assert bool(decoding.logits.isnan().all())
