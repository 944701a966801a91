"""The kernel for the newest token: a decoder in float64, for all that it says it can, and its rows never mix."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from loud import loud, small
from model_laws import texts
from structs import fields_of
from torch.testing import assert_close

from regard import Rotary
from regard.attention.positions.rope_scaling import Yarn
from regard.kernels import library as compiled
from regard.kernels import linear
from regard.transformer.decoding import kernel as module
from regard.transformer.decoding.fast_step import Shortcut
from regard.transformer.decoding.kernel import MOST_AT_ONCE, Block, Call, Norm, Vectors, why_not
from regard.transformer.decoding.unwrapped_step import BareDecoder, Sources
from regard.transformer.feed_forward import Activation
from regard.transformer.model import Transformer

LENGTHS = torch.tensor([7, 1, 16, 5, 33])
SOURCE = texts(LENGTHS.tolist(), 31)
N_TOKENS = 37


def new_model(seed=0, **fields):
    assert module.regard_newest() is not None, "these tests need a C compiler"
    sizes = {"d_model": 96, "d_ff": 48, **fields}
    return loud(Transformer(small(**sizes)), seed).float()


def every_step(model, target, source=SOURCE, lengths=LENGTHS):
    """The logits of all steps, and where they looked."""
    logits, cross = [], []
    with torch.inference_mode():
        state = model.start(source, lengths)
        assert state.shortcut.newest is not None
        for place in range(target.shape[1]):
            step = model.step(target[:, place : place + 1], state)
            state = step.state
            logits.append(step.logits[:, 0])
            cross.append(step.cross[-1].dense()[:, :, 0])
    return torch.stack(logits, dim=1), torch.stack(cross, dim=2)


def in_float64(model, target):
    """The same by the decoder itself."""
    with torch.no_grad():
        whole = model.double()(SOURCE, LENGTHS, target)
        model.float()
        return whole.logits, whole.cross[-1].dense()


def assert_is_the_decoder(model, slack=1e-4):
    target = texts([N_TOKENS] * 5, 37, seed=1)
    for found, expected in zip(every_step(model, target), in_float64(model, target), strict=True):
        assert_close(found.double(), expected, rtol=slack, atol=slack)


@pytest.mark.parametrize("activation", get_args(Activation))
def test_whatever_bends(activation):
    assert_is_the_decoder(new_model(activation=activation, n_decoder_layers=1))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("d_head", [16, 32, 48, 64])
@pytest.mark.parametrize("n_key_heads", [1, 2, 6])
def test_whatever_the_heads(norm, d_head, n_key_heads):
    assert_is_the_decoder(new_model(norm=norm, d_model=6 * d_head, n_key_heads=n_key_heads), 3e-4)


@pytest.mark.parametrize(
    "positions",
    [
        Rotary(),
        Rotary(pairing="neighbours"),
        Rotary(d_rotary=6, base=100.0),
        Rotary(stretch=Yarn(4.0, 16)),
        Rotary(pairing="neighbours", d_rotary=10),
    ],
    ids=repr,
)
def test_wherever_tokens_are_turned_to(positions):
    model = new_model(positions="rotary")
    for block in (*model.encoder.blocks, *model.decoder.blocks):
        block.own_attention.positions = positions
    assert_is_the_decoder(model)


@pytest.mark.parametrize("scale", [1e-6, 10.0, 1e3])
def test_scores_may_be_small_and_large(scale):
    model = new_model()
    with torch.no_grad():
        for block in model.decoder.blocks:
            block.own_attention.to_query.weight *= scale
            block.cross_attention.to_query.weight *= scale
    assert_is_the_decoder(model, 1e-4 * max(scale, 1.0))


def test_each_norm_has_its_own_gain_bias_and_epsilon():
    model = new_model()
    for number, norm in enumerate(part for part in model.decoder.modules() if isinstance(part, torch.nn.LayerNorm)):
        norm.eps = 0.1 * (number + 1)
    assert_is_the_decoder(model)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9, 2 * MOST_AT_ONCE + 1])
def test_a_row_is_what_it_is_alone_to_the_last_bit(rows, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    model, n = new_model(n_decoder_layers=2), 6
    of = torch.arange(rows) % len(LENGTHS)
    target = texts([n] * rows, 37, seed=1)
    with torch.inference_mode():
        memory = model.encoder(SOURCE, LENGTHS).output  # the encoder's products depend on how many rows there are
        monkeypatch.setattr(model.encoder, "forward", lambda source, lengths: Encoded(memory[source[:, 0]]))
        together = vectors(model, target, of)
        alone = torch.cat([vectors(model, target[row : row + 1], of[row : row + 1]) for row in range(rows)])
    assert torch.equal(together, alone)
    monkeypatch.setattr(compiled, "parallel", lambda: None)  # another OpenMP than GNU's
    with torch.inference_mode():
        assert torch.equal(vectors(model, target, of), together)


class Encoded:
    """What the encoder gives, as far as a start looks at it."""

    def __init__(self, output):
        self.output = output


def vectors(model, target, of):
    """What the kernel gives for the last of some tokens, before the output projection, and what it asked of sources."""
    state = model.start(of[:, None].expand(-1, SOURCE.shape[1]), LENGTHS[of])
    for place in range(target.shape[1]):
        shortcut = state.shortcut
        x = shortcut.decoder.embed(target[:, place], place)
        past = shortcut.decoder.longer(state.past, x, shortcut.sources)
        x, queries = shortcut.newest.read(x, past)
        state = replace(state, past=past)
    return torch.cat([x, *(query.flatten(1) for query in queries)], dim=1)


def test_what_is_not_written_yet_and_what_lies_behind_a_source_never_show():
    model, target = new_model(), texts([3] * 5, 37, seed=1)
    with torch.inference_mode():
        state = model.start(SOURCE, LENGTHS)
        for known in state.memory:
            for numbers in (known.key, known.value):
                for row, length in enumerate(LENGTHS.tolist()):
                    numbers[row, :, length:] = torch.nan
        step = model.step(target[:, :1], state)
        step.state.past.room.numbers[:, :, :, :, 1:] = torch.nan
        step = model.step(target[:, 1:2], step.state)
    assert bool(step.logits.isfinite().all())
    assert_close(step.logits[:, 0].double(), in_float64(model, target[:, :2])[0][:, 1], rtol=1e-4, atol=1e-4)


def test_nan_shows_in_the_rows_that_read_it_and_in_no_others():
    model, target = new_model(), texts([2] * 5, 37, seed=1)
    with torch.inference_mode():
        state = model.start(SOURCE, LENGTHS)
        state.memory[1].value[2, 3, 4, 5] = torch.nan
        step = model.step(target[:, :1], state)
        assert step.logits.isnan().any(dim=2)[:, 0].tolist() == [False, False, True, False, False]
        step = model.step(target[:, 1:2], step.state)
        assert step.logits.isnan().any(dim=2)[:, 0].tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("activation", get_args(Activation))
def test_nothing_that_bends_makes_a_number_of_nan(activation):
    model, target = new_model(activation=activation), texts([1] * 5, 37, seed=1)
    with torch.inference_mode():
        model.decoder.blocks[2].feed_forward.widen.bias.fill_(torch.nan)
        assert bool(model.step(target, model.start(SOURCE, LENGTHS)).logits.isnan().all())


def test_parameters_that_are_put_in_the_place_of_others_do_not_leave_it_with_memory_that_is_gone():
    model, target = new_model(), texts([2] * 5, 37, seed=1)
    expected = every_step(model, target)[0]
    with torch.inference_mode():
        state = model.start(SOURCE, LENGTHS)
        for parameter in model.parameters():
            parameter.data = torch.full_like(parameter, torch.nan)
        for place in range(2):
            step = model.step(target[:, place : place + 1], state)
            state = step.state
    assert step.logits.isnan().all()  # its embedding is the module's own
    assert bool(expected.isfinite().all())


def with_other_heads(model):
    own = model.decoder.blocks[1].own_attention
    own.n_heads, own.n_key_heads, own.d_head = 3, 3, 32


def with_another_bend(model):
    model.decoder.blocks[1].feed_forward.activation = "gelu"


def with_another_width(model):
    feed_forward = model.decoder.blocks[1].feed_forward
    feed_forward.widen, feed_forward.narrow = torch.nn.Linear(96, 64), torch.nn.Linear(64, 96)


def with_odd_places_of_the_norm(model):
    model.decoder.blocks[1].around_cross_attention.before ^= True


def in_another_precision(model):
    model.double()


UNLIKE = "all blocks have the same shape, the paper's"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_other_heads, UNLIKE),
        (with_another_bend, UNLIKE),
        (with_another_width, UNLIKE),
        (with_odd_places_of_the_norm, UNLIKE),
        (in_another_precision, "it computes in float32"),
        (lambda model: None, None),
    ],
)
def test_it_says_what_it_cannot_do_and_others_do_it(change, reason):
    model, target = new_model(), texts([4] * 5, 37, seed=1)
    change(model)
    with torch.inference_mode():
        state = model.start(SOURCE, LENGTHS)
        assert why_not(BareDecoder.of(model.decoder), Sources.of(state.sources, LENGTHS)) == reason
        assert (state.shortcut is None) == (change is with_other_heads)
        assert state.shortcut is None or (state.shortcut.newest is None) == (reason is not None)
        for place in range(4):
            step = model.step(target[:, place : place + 1], state)
            state = step.state
    assert_close(step.logits[:, 0], model(SOURCE, LENGTHS, target).logits[:, -1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"d_model": 48}, "heads have a multiple of 16 numbers"),
        ({"d_ff": 40}, "weights are rows of a multiple of 16 numbers, one behind the other"),
    ],
)
def test_sizes_that_it_cannot_read_are_left_to_others(fields, reason):
    model = new_model(**fields)
    with torch.inference_mode():
        state = model.start(SOURCE, LENGTHS)
        assert why_not(BareDecoder.of(model.decoder), state.shortcut.sources) == reason
        assert state.shortcut.newest is None


def test_without_a_compiler_it_says_so(monkeypatch):
    model = new_model()
    with torch.inference_mode():
        decoder, sources = BareDecoder.of(model.decoder), model.start(SOURCE, LENGTHS).shortcut.sources
        monkeypatch.setattr(module, "regard_newest", lambda: None)
        assert why_not(decoder, sources) == "no C compiler was found"
        monkeypatch.setattr(linear, "regard_linear", lambda: None)
        assert why_not(decoder, sources) == "no C compiler was found"
        assert model.start(SOURCE, LENGTHS).shortcut.newest is None


def test_sources_that_it_cannot_read_are_left_to_others():
    model = new_model()
    with torch.inference_mode():
        sources = model.start(SOURCE, LENGTHS).shortcut.sources
        memory = tuple(replace(known, key=known.key.double()) for known in sources.memory)
        reason = why_not(BareDecoder.of(model.decoder), Sources.of(memory, LENGTHS))
        assert reason == "it reads float32, the numbers of a vector side by side"


@pytest.mark.parametrize("change", ["widths", "heads", "norms"])
def test_parts_that_do_not_fit_together_are_never_read(change):
    model = new_model()
    with torch.inference_mode():
        sources = model.start(SOURCE, LENGTHS).shortcut.sources
        decoder = BareDecoder.of(model.decoder)
        for block in model.decoder.blocks:
            if change == "widths":
                block.cross_attention.to_output = torch.nn.Linear(96, 80)
            elif change == "heads":
                block.cross_attention.n_heads = block.cross_attention.n_key_heads = 3
                block.cross_attention.d_head = 32
            else:
                block.around_own_attention.norm = torch.nn.LayerNorm(80)
        assert why_not(decoder, sources) is None
        assert why_not(BareDecoder.of(model.decoder), sources) == UNLIKE


@pytest.mark.parametrize("part", ["norm", "embedding"])
def test_a_part_in_another_precision_is_left_to_others(part):
    model = new_model()
    getattr(model.decoder, part).double()
    with torch.inference_mode():
        sources = Sources.of(model.decoder.start(torch.zeros(1, 3, 96)).sources, None)
        reason = why_not(BareDecoder.of(model.decoder), sources)
        assert reason == "it reads float32, the numbers of a vector side by side"


def test_lengths_beyond_the_source_read_no_further():
    model, target = new_model(), texts([1] * 5, 37, seed=1)
    with torch.inference_mode():
        memory = model.encoder(SOURCE, LENGTHS).output
        within, beyond = LENGTHS, torch.where(LENGTHS < 33, LENGTHS, 70)
        logits = [model.step(target, state_of(model, memory, lengths)).logits for lengths in (within, beyond)]
    assert torch.equal(*logits)


def state_of(model, memory, lengths):
    state = model.decoder.start(memory, lengths)
    return replace(state, shortcut=Shortcut.of(model.decoder, Sources.of(state.sources, lengths)))


@pytest.mark.parametrize("rows", [1, 4, 6])
def test_more_or_fewer_rows_than_there_are_are_refused(rows):
    model = new_model()
    with torch.inference_mode():
        state = model.start(SOURCE, LENGTHS)
        with pytest.raises(ValueError, match=f"got {rows} rows of tokens for a state of 5"):
            model.step(texts([1] * rows, 37), state)
        state = model.step(texts([1] * 5, 37), state).state
        with pytest.raises(ValueError, match=f"got {rows} rows of tokens for a state of 5"):
            model.step(texts([1] * rows, 37), state)


@pytest.mark.parametrize("struct", [Call, Vectors, Block, Norm])
def test_the_structs_have_the_fields_of_the_source_in_their_order(struct):
    assert [name for name, *_ in struct._fields_] == fields_of(module.SOURCE, struct.__name__)
