"""Tests of fingerprints: equal until a part of the module is replaced, whatever part; the decoder's is then new."""

import gc

import pytest
import torch
from loud import loud, small
from model_laws import texts
from torch import nn
from torch.testing import assert_close

from regard import Softmax
from regard.transformer.decoding import kernel
from regard.transformer.decoding.fingerprint import Fingerprint
from regard.transformer.model import Transformer

SOURCE, LENGTHS, TARGET = texts([7, 5], 31), torch.tensor([7, 5]), texts([3, 3], 37)


@pytest.fixture
def model():
    return loud(Transformer(small(d_model=96, d_ff=48))).float()


def first_block(model):
    return model.decoder.blocks[0]


def with_another_attribute(model):
    first_block(model).self_attention_norm.eps = 0.25


def with_another_normaliser(model):
    first_block(model).self_attention.normalise = Softmax(temperature=2.0)


def with_another_parameter(model):
    layer = first_block(model).feed_forward.widen
    layer.weight = nn.Parameter(layer.weight.detach().clone())


def with_other_memory(model):
    first_block(model).feed_forward.widen.weight.data = torch.ones(48, 96)


def with_another_shape(model):
    weight = first_block(model).feed_forward.widen.weight
    weight.data = weight.data.view(96, 48)


def with_another_module(model):
    first_block(model).feed_forward.narrow = nn.Linear(48, 96)


def with_a_module_more(model):
    model.decoder.blocks.append(first_block(model))


def with_another_class(model):
    first_block(model).feed_forward.narrow.__class__ = type("Narrow", (nn.Linear,), {})


def with_a_hook(model):
    first_block(model).feed_forward.narrow.register_forward_hook(lambda module, given, output: output)


def with_a_hook_before(model):
    model.decoder.register_forward_pre_hook(lambda module, given: given)


def with_another_forward(model):
    first_block(model).feed_forward.forward = lambda x: x


def in_training_mode(model):
    first_block(model).residual.train()


def in_float64(model):
    first_block(model).cross_attention.double()


@pytest.mark.parametrize(
    "change",
    [
        with_another_attribute,
        with_another_normaliser,
        with_another_parameter,
        with_other_memory,
        with_another_shape,
        with_another_module,
        with_a_module_more,
        with_another_class,
        with_a_hook,
        with_a_hook_before,
        with_another_forward,
        in_training_mode,
        in_float64,
    ],
)
def test_every_replacement_shows(model, change):
    before = Fingerprint.of(model.decoder)
    assert Fingerprint.of(model.decoder).same(before)
    change(model)
    assert not Fingerprint.of(model.decoder).same(before)


def test_numbers_that_change_in_place_are_no_replacement(model):
    before = Fingerprint.of(model.decoder)
    with torch.no_grad():
        first_block(model).feed_forward.widen.weight.mul_(2)
    model.load_state_dict(model.state_dict())
    assert Fingerprint.of(model.decoder).same(before)


def last_logits(model):
    with torch.inference_mode():
        state = model.start(SOURCE, LENGTHS)
        assert state.compiled is not None
        for place in range(3):
            step = model.step(TARGET[:, place : place + 1], state)
            state = step.state
    return step.logits[:, 0]


def test_the_arguments_of_a_decoder_are_made_once_until_a_part_is_replaced(model, monkeypatch):
    made, of = [], kernel.DecoderArguments.of
    monkeypatch.setattr(kernel.DecoderArguments, "of", lambda decoder: made.append(decoder) or of(decoder))
    for change in (None, lambda model: model.decoder.norm.weight.data.mul_(0.5), with_another_attribute):
        if change is not None:
            change(model)
        for _ in range(2):
            assert_close(last_logits(model), model(SOURCE, LENGTHS, TARGET).logits[:, -1], rtol=1e-4, atol=1e-4)
    assert len(made) == 2


def test_a_decoder_is_forgotten_with_its_model():
    model = loud(Transformer(small(d_model=96, d_ff=48))).float()
    last_logits(model)
    assert model.decoder in kernel.KNOWN
    n_known = len(kernel.KNOWN)
    del model
    gc.collect()
    assert len(kernel.KNOWN) < n_known
