"""Decoding with 8-bit integers as weights: against torch with quantised numbers; what stays float32; refusals."""

import copy

import pytest
import torch
import torch.nn.functional as F
from loud import loud, small
from model_laws import texts
from refusals import refusal
from torch import Tensor, nn

from regard import InputError
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.transformer import int8 as module
from regard.transformer.decoder import Decoder
from regard.transformer.decoding import encode as encode_module
from regard.transformer.int8 import Int8Transformer
from regard.transformer.model import Transformer

ROWS, N_TOKENS = 23, 3
LENGTHS = torch.arange(ROWS) % 7 + 1
SOURCE, TARGET = texts(LENGTHS.tolist(), 31), texts([N_TOKENS] * ROWS, 37, seed=1)


def new_model(**fields: object) -> Transformer:
    return loud(Transformer(small(**{"d_model": 96, "d_ff": 48, **fields}))).float()


def rounded(vectors: Tensor) -> Tensor:
    """Return vectors of which each number is a multiple of the 127th part of the vector's largest number."""
    scale = vectors.abs().amax(dim=-1, keepdim=True) / 127
    return (vectors / scale).round() * scale


class Rounded(nn.Linear):
    """A linear layer whose weights and inputs are rounded as 8-bit integers are."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(rounded(x), rounded(self.weight), self.bias)


def with_rounded_layers(part: nn.Module, but: tuple[str, ...] = ()) -> nn.Module:
    """Return a copy of a module in float64 whose linear layers are `Rounded`, except those whose names end so."""
    part = copy.deepcopy(part).double()
    for name, layer in part.named_modules():
        if isinstance(layer, nn.Linear) and not name.endswith(but):
            layer.__class__ = Rounded
    return part


@torch.inference_mode()
def last_logits(model: Transformer) -> Tensor:
    """Decode the targets token by token with the kernels; return the logits after the last token."""
    decoding = model.compiled_decoding(SOURCE, LENGTHS, most_rows=ROWS, most_tokens=N_TOKENS)
    assert decoding is not None
    for tokens in TARGET.T.tolist():
        decoding.read(tokens, range(ROWS))
    return decoding.logits.double()


@torch.inference_mode()
def last_logits_of_torch(model: Transformer) -> Tensor:
    return model(SOURCE, LENGTHS, TARGET).logits[:, -1].double()


def assert_agree(found: Tensor, expected: Tensor, model: Transformer) -> None:
    """Compare logits of the kernels with those of torch in float64, both with rounded numbers.

    A float32 number may be rounded up where the float64 number is rounded down, if both are near the middle between
    two integers. This happens in fewer than half of the rows, and then the row differs about as much as rounding
    changes it. All other rows agree as float32 numbers do; rounding changes each row a thousand times as much.
    """
    changes = (expected - last_logits_of_torch(copy.deepcopy(model).double())).abs().amax(dim=1)
    differences = (found - expected).abs().amax(dim=1)
    assert changes.min() > 0.03
    assert (differences < 3e-5).sum() > ROWS / 2
    assert differences.max() < changes.max()


@pytest.mark.parametrize(
    "fields",
    [{}, {"norm": "post", "n_key_heads": 2}, {"activation": "swiglu", "d_ff": 112}, {"d_model": 192, "share": "none"}],
    ids=repr,
)
def test_logits_of_int8_are_those_of_torch_with_rounded_weights_and_inputs(fields):
    model = new_model(**fields)
    by_torch = copy.deepcopy(model).double()
    by_torch.encoder, by_torch.decoder = with_rounded_layers(model.encoder), with_rounded_layers(model.decoder)
    assert_agree(last_logits(Int8Transformer(model)), last_logits_of_torch(by_torch), model)


@pytest.mark.parametrize("reason", ["rotary positions", "a long source"])
def test_an_encoder_that_the_kernels_do_not_support_is_computed_in_float32(reason, monkeypatch):
    model = new_model(positions="rotary" if reason == "rotary positions" else "sinusoidal")
    if reason == "a long source":
        monkeypatch.setattr(encode_module, "MOST_TOKENS", 6)
    by_torch = copy.deepcopy(model).double()
    memory_layers = "cross_attention.to_key", "cross_attention.to_value"
    by_torch.decoder = with_rounded_layers(model.decoder, but=memory_layers)
    assert_agree(last_logits(Int8Transformer(model)), last_logits_of_torch(by_torch), model)


def test_forward_and_step_compute_in_float32():
    model = new_model()
    int8 = Int8Transformer(model)
    with torch.inference_mode():
        state, expected = int8.start(SOURCE, LENGTHS), model.start(SOURCE, LENGTHS)
        for place in range(N_TOKENS):
            step = int8.step(TARGET[:, place : place + 1], state)
            expected_step = model.step(TARGET[:, place : place + 1], expected)
            state, expected = step.state, expected_step.state
            assert torch.equal(step.logits, expected_step.logits)
        assert torch.equal(int8(SOURCE, LENGTHS, TARGET).logits, model(SOURCE, LENGTHS, TARGET).logits)


def test_later_changes_of_the_weights_do_not_change_the_integers():
    model = new_model()
    int8 = Int8Transformer(model)
    expected = last_logits(int8)
    with torch.no_grad():
        model.decoder.blocks[0].feed_forward.widen.weight.mul_(2)
        model.encoder.blocks[0].feed_forward.widen.weight.mul_(2)
    assert torch.equal(last_logits(int8), expected)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Recurrent(RecurrentConfig(n_source_tokens=31, n_target_tokens=37, d_model=32)),
            "int8 needs a Transformer, and the model is a Recurrent; leave int8 out.",
        ),
        (
            new_model().to("meta"),
            "int8 does not support this model: it is on the device meta, and the kernels for 8-bit integers run on "
            "cpu; leave int8 out.",
        ),
        (
            new_model(d_model=48),
            "int8 does not support this model: d_head and d_ff must be multiples of 16; leave int8 out.",
        ),
    ],
    ids=["recurrent", "device", "widths"],
)
def test_models_without_kernels_are_refused(model, message):
    assert refusal(InputError, Int8Transformer, model) == message


def test_a_decoder_of_another_class_is_refused():
    model = new_model()
    model.decoder.__class__ = type("OwnDecoder", (Decoder,), {})
    assert refusal(InputError, Int8Transformer, model) == (
        "int8 does not support this model: its encoder or decoder is not the standard one; leave int8 out."
    )


def test_without_compiled_kernels_int8_is_refused(monkeypatch):
    monkeypatch.setattr(module, "c_function", lambda name: None)
    assert refusal(InputError, Int8Transformer, new_model()) == (
        "int8 does not support this model: no C kernels were built when regard was installed; leave int8 out."
    )


def test_more_tokens_than_positions_are_refused():
    sizes = {"most_rows": ROWS, "most_tokens": 42}
    assert refusal(ValueError, Int8Transformer(new_model()).compiled_decoding, SOURCE, LENGTHS, **sizes) == (
        "most_tokens=42 is above the model's 41 positions; int8 decodes at most as many tokens."
    )
