"""Tests of the C kernel that encodes sources: against the encoder's `forward` in float64; sources are independent."""

from typing import get_args

import pytest
import torch
from loud import loud, small
from model_laws import texts
from refusals import refusal
from spoilt_arguments import spoil_arguments
from torch import nn
from torch.testing import assert_close

from regard import Rotary, ScaledDot
from regard.transformer.decoding import encode as module
from regard.transformer.decoding import parameters, supported
from regard.transformer.decoding.encode import MOST_TOKENS
from regard.transformer.decoding.parameters import KernelModule, Snapshot
from regard.transformer.encoder import Encoder
from regard.transformer.feed_forward import Activation
from regard.transformer.model import Transformer

LENGTHS = torch.tensor([7, 1, 16, 5, 33])
SOURCE = texts(LENGTHS.tolist(), 31)
KEPT = torch.arange(33) < LENGTHS[:, None]


def new_model(**fields):
    assert module.c_function("regard_encode") is not None, "these tests need a C compiler"
    return loud(Transformer(small(**{"d_model": 96, "d_ff": 48, **fields}))).float()


def memory_of(model, source=SOURCE, lengths=LENGTHS):
    """Return the keys and values of all decoder blocks [blocks, 2, sources, heads, tokens, d_head]."""
    with torch.inference_mode():
        state = model.start(source, lengths)
    return torch.stack([torch.stack([block.key, block.value]) for block in state.memory])


def in_float64(model, lengths=LENGTHS):
    with torch.no_grad():
        memory = memory_of(model.double(), lengths=lengths)
        model.float()
    return memory


def assert_equal_where_kept(found, expected, slack=1e-4):
    found, expected = (tensor.double().movedim(4, 3)[:, :, KEPT] for tensor in (found, expected))
    assert_close(found, expected, rtol=slack, atol=slack)


@pytest.fixture
def kernel_alone(monkeypatch):
    """Make `Encoder.forward` fail in float32, so that only the kernel can encode."""
    forward = Encoder.forward

    def refuse(self, source, lengths=None):
        assert self.embedding.by_token.weight.dtype == torch.float64, "the modules encoded"
        return forward(self, source, lengths)

    monkeypatch.setattr(Encoder, "forward", refuse)


@pytest.fixture
def modules_alone(monkeypatch):
    """Make the kernel fail, so that only `Encoder.forward` can encode."""
    monkeypatch.setattr(module, "check_arguments", lambda *arguments: pytest.fail("the kernel encoded"))


@pytest.mark.usefixtures("kernel_alone")
@pytest.mark.parametrize("activation", get_args(Activation))
def test_the_kernel_computes_every_activation(activation):
    model = new_model(activation=activation, n_layers=1)
    assert_equal_where_kept(memory_of(model), in_float64(model))


@pytest.mark.usefixtures("kernel_alone")
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(
    ("norm", "d_head", "n_key_heads"), [("pre", 16, 1), ("post", 32, 2), ("post", 48, 6), ("pre", 64, 2)]
)
def test_the_kernel_computes_all_heads_norms_and_positions(norm, d_head, n_key_heads, positions):
    model = new_model(norm=norm, d_model=6 * d_head, n_key_heads=n_key_heads, positions=positions)
    assert_equal_where_kept(memory_of(model), in_float64(model), 3e-4)


@pytest.mark.usefixtures("kernel_alone")
def test_each_norm_has_its_own_gain_bias_and_epsilon():
    model = new_model()
    for number, norm in enumerate(part for part in model.encoder.modules() if isinstance(part, nn.LayerNorm)):
        norm.eps = 0.1 * (number + 1)
    assert_equal_where_kept(memory_of(model), in_float64(model))


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_a_source_is_what_it_is_alone_to_the_last_bit(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    model = new_model()
    together = memory_of(model)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = memory_of(model, SOURCE[row : row + 1, :length], LENGTHS[row : row + 1])
        assert torch.equal(together[:, :, row : row + 1, :, :length], alone)


def test_padding_is_never_read_and_its_keys_and_values_are_0():
    model = new_model()
    expected = memory_of(model)
    with torch.no_grad():
        model.encoder.embedding.by_token.weight[0] = torch.nan
    assert torch.equal(memory_of(model), expected)
    assert not expected.movedim(4, 3)[:, :, ~KEPT].any()


def with_hook(model):
    model.encoder.blocks[1].feed_forward.widen.register_forward_hook(lambda module, given, output: 2 * output)


def with_rotary_positions(model):
    model.encoder.blocks[0].self_attention.positions = Rotary()


def with_rotary_positions_in_all(model):
    for block in model.encoder.blocks:
        block.self_attention.positions = Rotary()


def with_another_score(model):
    model.encoder.blocks[1].self_attention.score = ScaledDot(softcap=3.0)


def with_another_width(model):
    for block in model.decoder.blocks:
        block.cross_attention.to_key, block.cross_attention.to_value = nn.Linear(80, 96), nn.Linear(80, 96)
    model.encoder.norm = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 80))


@pytest.mark.parametrize(
    "change", [with_hook, with_rotary_positions, with_rotary_positions_in_all, with_another_score, with_another_width]
)
def test_an_encoder_that_the_kernel_does_not_support_encodes_itself(change, request):
    model = new_model()
    memory_of(model)  # the change comes after a first use
    change(model)
    request.getfixturevalue("modules_alone")
    assert_equal_where_kept(memory_of(model), in_float64(model))


@pytest.mark.parametrize(("n_tokens", "by_kernel"), [(MOST_TOKENS, True), (MOST_TOKENS + 1, False)])
def test_sources_of_more_than_most_tokens_are_left_to_the_modules(n_tokens, by_kernel, monkeypatch):
    calls = []
    monkeypatch.setattr(module, "check_arguments", lambda *arguments: calls.append(arguments))
    model = new_model(max_tokens=MOST_TOKENS + 1, n_layers=1)
    memory_of(model, texts([n_tokens], 31), torch.tensor([n_tokens]))
    assert bool(calls) == by_kernel


def test_a_source_with_more_tokens_than_positions_is_left_to_the_modules(modules_alone):
    model = new_model(max_tokens=SOURCE.shape[1] - 1)
    assert_equal_where_kept(memory_of(model), in_float64(model))


def test_without_a_compiler_the_modules_encode(monkeypatch, modules_alone):
    model = new_model()
    monkeypatch.setattr(supported, "c_function", lambda name: None)
    assert_equal_where_kept(memory_of(model), in_float64(model))


def test_parameters_of_a_stack_are_collected_again_only_when_a_module_has_changed(monkeypatch):
    model = new_model()
    first = KernelModule.of(model.encoder)
    with torch.no_grad():
        model.encoder.blocks[0].feed_forward.widen.bias.add_(1)
    assert KernelModule.of(model.encoder) is first
    model.encoder.norm.eps = 0.5
    assert KernelModule.of(model.encoder) is not first
    monkeypatch.setattr(parameters, "unsupported_reason", lambda module: pytest.fail("computed again"))
    KernelModule.of(model.encoder)


def change_a_class(model):
    model.encoder.blocks[0].feed_forward.widen.__class__ = type("Widen", (nn.Linear,), {})


def transpose_in_place(model):
    weight = model.encoder.blocks[0].self_attention.to_output.weight
    weight.data = weight.data.mT


def shorten_in_place(model):
    bias = model.encoder.blocks[0].self_attention.to_output.bias
    bias.data = bias.data[:80]


@pytest.mark.parametrize(
    "change",
    [
        with_hook,
        with_rotary_positions,
        change_a_class,
        transpose_in_place,
        shorten_in_place,
        lambda model: model.encoder.register_forward_pre_hook(lambda *arguments: None),
        lambda model: setattr(model.encoder.blocks[1], "forward", lambda x, mask=None: x),
        lambda model: setattr(model.encoder.blocks[1], "norm_first", False),
        lambda model: setattr(model.encoder.norm, "weight", None),
        lambda model: model.encoder.double(),
        lambda model: model.encoder.train(),
        lambda model: model.encoder.blocks.append(model.encoder.blocks[0]),
    ],
)
def test_a_snapshot_is_not_current_after_a_change(change):
    model = new_model()
    before = Snapshot(model.encoder)
    assert before.is_current()
    change(model)
    assert not before.is_current()


WRONG = {
    "blocks": (lambda a: setattr(a, "n_blocks", 0), "there are no blocks"),
    "tokens": (lambda a: setattr(a, "tokens", 0), "sources must be at least 0, and tokens above 0"),
    "memory": (lambda a: setattr(a, "memory", None), "an array is a null pointer"),
    "layers": (
        lambda a: setattr(a.layers[1], "n_in", 48),
        "the key and value layers must have d_model inputs, and all the same number of outputs",
    ),
    "scratch": (
        lambda a: setattr(a, "scratch_numbers", 8),
        "scratch_numbers must be enough for the tokens of a source",
    ),
    "ids": (lambda a: setattr(a.embedding, "vocabulary", 3), "token ids must be 0 to vocabulary - 1"),
    "length": (lambda a: setattr(a, "tokens", 32), "lengths must be 0 to tokens"),
}
"""By the name of a test: a function that makes valid arguments wrong, and the kernel's error message."""


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name, monkeypatch):
    spoil, reason = WRONG[name]
    spoil_arguments(monkeypatch, module, spoil)
    message = f"regard_encode refuses its arguments: {reason}; please report this."
    assert refusal(RuntimeError, memory_of, new_model()) == message


def test_ids_and_lengths_that_the_kernel_must_not_read_are_refused(kernel_alone, without_type_checks):
    model, source = new_model(), SOURCE.clone()
    assert refusal(ValueError, memory_of, model, SOURCE, LENGTHS[:1]) == (
        "lengths has shape [1], and source has a batch of 5; give one length for each row of source, [5]."
    )
    source[0, 0] = 31
    assert refusal(ValueError, memory_of, model, source) == (
        "source has the token id 31, and the vocabulary has 31 tokens; give ids from 0 to 30."
    )
