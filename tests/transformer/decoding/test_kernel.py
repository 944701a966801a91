"""Tests of the C kernel for a decoding step: against the decoder's `forward` in float64; rows are independent."""

import ctypes
from typing import get_args

import pytest
import torch
from loud import loud, small
from model_laws import texts
from refusals import refusal
from spoilt_arguments import spoil_arguments
from torch.testing import assert_close

from regard import Rotary
from regard.attention.positions.rope_scaling import Yarn
from regard.kernels import threads as threads_module
from regard.transformer.decoding import kernel as module
from regard.transformer.decoding import supported
from regard.transformer.decoding.kernel import MOST_ROWS_AT_ONCE
from regard.transformer.decoding.parameters import KernelModule
from regard.transformer.decoding.supported import unsupported_reason
from regard.transformer.feed_forward import Activation
from regard.transformer.model import Transformer

LENGTHS = torch.tensor([7, 1, 16, 5, 33])
SOURCE = texts(LENGTHS.tolist(), 31)
N_TOKENS = 37
UNLIKE = "all blocks and layers must have the widths and settings of one config"
NOT_FLOAT32 = "parameters must be contiguous float32 tensors on a CPU"


def new_model(**fields):
    assert module.c_function("regard_decoding_step") is not None, "these tests need a C compiler"
    return loud(Transformer(small(**{"d_model": 96, "d_ff": 48, **fields}))).float()


def decoding_of(model, source=SOURCE, lengths=LENGTHS, rows=None):
    """Return the decoding of a batch by the kernel, with room for N_TOKENS tokens; None if the kernel cannot."""
    return model.compiled_decoding(source, lengths, most_rows=rows or len(source), most_tokens=N_TOKENS)


def every_step(model, target):
    """Decode token by token; return the logits of all steps and the last block's cross-attention weights."""
    logits, cross = [], []
    with torch.inference_mode():
        decoding = decoding_of(model)
        for tokens in target.T.tolist():
            decoding.read(tokens, range(len(tokens)))
            logits.append(decoding.logits.clone())
            cross.append(decoding.cross[-1].dense()[:, :, 0])
    return torch.stack(logits, dim=1), torch.stack(cross, dim=2)


def in_float64(model, target):
    """Return the logits and cross-attention weights of the decoder's `forward` in float64."""
    with torch.no_grad():
        whole = model.double()(SOURCE, LENGTHS, target)
        model.float()
        return whole.logits, whole.cross[-1].dense()


def assert_is_the_decoder(model, slack=1e-4, n_tokens=N_TOKENS):
    target = texts([n_tokens] * 5, 37, seed=1)
    for found, expected in zip(every_step(model, target), in_float64(model, target), strict=True):
        assert_close(found.double(), expected, rtol=slack, atol=slack)


@pytest.mark.parametrize("activation", get_args(Activation))
def test_the_kernel_computes_every_activation(activation):
    assert_is_the_decoder(new_model(activation=activation, n_decoder_layers=1), n_tokens=3)


@pytest.mark.parametrize(
    ("norm", "d_head", "n_key_heads"), [("pre", 16, 1), ("post", 32, 2), ("post", 48, 6), ("pre", 64, 2)]
)
def test_the_kernel_computes_all_heads_and_norms(norm, d_head, n_key_heads):
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
def test_the_kernel_computes_all_rotary_positions(positions):
    model = new_model(positions="rotary")
    for block in (*model.encoder.blocks, *model.decoder.blocks):
        block.self_attention.positions = positions
    assert_is_the_decoder(model)


def with_another_weight(model):
    layer = model.decoder.blocks[0].feed_forward.widen
    layer.weight = torch.nn.Parameter(layer.weight.detach() / 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model.decoder.blocks[0].self_attention_norm, "eps", 0.25),
        with_another_weight,
        lambda model: model.decoder.norm.weight.data.mul_(0.5),
    ],
)
def test_a_changed_decoder_is_used_from_the_next_start_on(change):
    model = new_model()
    assert_is_the_decoder(model, n_tokens=2)
    change(model)
    assert_is_the_decoder(model, n_tokens=2)


def test_torchs_default_type_changes_nothing(default_type):
    model, target = new_model(), texts([3] * 5, 37, seed=1)
    expected = every_step(model, target)
    with default_type(torch.float64):
        found = every_step(model, target)
    assert_close(found, expected)


@pytest.mark.parametrize("scale", [1e-6, 10.0, 1e3])
def test_scores_may_be_small_and_large(scale):
    model = new_model()
    with torch.no_grad():
        for block in model.decoder.blocks:
            block.self_attention.to_query.weight *= scale
            block.cross_attention.to_query.weight *= scale
    assert_is_the_decoder(model, 1e-4 * max(scale, 1.0))


def test_each_norm_has_its_own_gain_bias_and_epsilon():
    model = new_model()
    for number, norm in enumerate(part for part in model.decoder.modules() if isinstance(part, torch.nn.LayerNorm)):
        norm.eps = 0.1 * (number + 1)
    assert_is_the_decoder(model)


@pytest.mark.parametrize(
    ("rows", "threads"), [(1, 2), (2, 1), (3, 2), (4, 3), (5, 7), (9, 2), (2 * MOST_ROWS_AT_ONCE + 1, 3)]
)
def test_a_row_has_the_bits_that_it_has_alone(rows, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    model = new_model(n_decoder_layers=2)
    sources, target = torch.arange(rows) % len(LENGTHS), texts([6] * rows, 37, seed=1)
    with torch.inference_mode():
        # the encoder's rounding depends on the number of rows, so all are encoded here; `source` has their indices
        memory = model.encoder(SOURCE, LENGTHS).output
        monkeypatch.setattr(model.encoder, "forward", lambda source, lengths: Encoded(memory[source[:, 0]]))
        together = last_vectors(model, target, sources)
        alone = [last_vectors(model, target[[row]], sources[[row]]) for row in range(rows)]
        assert torch.equal(together, torch.cat(alone))
        monkeypatch.setattr(threads_module, "gnu_openmp_parallel", lambda: None)  # another OpenMP than GNU's
        assert torch.equal(last_vectors(model, target, sources), together)


class Encoded:
    """The fields of an encoder's output that `start` reads."""

    def __init__(self, output):
        self.output = output


def last_vectors(model, target, sources):
    """Return the kernel's vectors for the last token, its logits, and its cross-attention queries, by row.

    Args:
        sources: for each row, the index of its source in SOURCE.
    """
    decoding = decoding_of(model, sources[:, None].expand(-1, SOURCE.shape[1]), LENGTHS[sources])
    for tokens in target.T.tolist():
        decoding.read(tokens, range(len(tokens)))
    n = len(sources)
    return torch.cat([decoding.x.view(n, -1), decoding.logits, *decoding.queries.view(2, n, -1)], dim=1)


@pytest.mark.parametrize("n_logits", [1, 3, 4, 37, 128, 131, 1031])
@pytest.mark.parametrize(("rows", "threads"), [(1, 1), (1, 3), (6, 2), (7, 1)])
def test_the_kernel_computes_any_number_of_logits(n_logits, rows, threads, normal, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(module, "PRODUCTS_PER_THREAD", 1)
    model = new_model(n_decoder_layers=1, n_target_tokens=n_logits)
    with torch.inference_mode():
        decoding = decoding_of(model, SOURCE[:1], LENGTHS[:1], rows)
        decoding.read([0] * rows, [0] * rows)
        expected = model.decoder.to_logits.double()(decoding.x.view(rows, -1).double())
        assert_close(decoding.logits.double(), expected, rtol=1e-5, atol=1e-5)


def test_memory_of_later_tokens_and_of_padding_is_never_read():
    model, target = new_model(), texts([3] * 5, 37, seed=1)
    with torch.inference_mode():
        decoding = decoding_of(model)
        for source in decoding.memory:
            for vectors in (source.key, source.value):
                for row, length in enumerate(LENGTHS.tolist()):
                    vectors[row, :, length:] = torch.nan
        cache = decoding.cache.view(5, 3, 2, -1, N_TOKENS, 16)  # [rows blocks key/value heads tokens d_head]
        for place, tokens in enumerate(target.T.tolist()[:2]):
            cache[:, :, :, :, place:] = torch.nan
            decoding.read(tokens, range(5))
    assert bool(decoding.logits.isfinite().all())
    assert_close(decoding.logits.double(), in_float64(model, target[:, :2])[0][:, 1], rtol=1e-4, atol=1e-4)


def test_nan_in_a_source_shows_in_its_row_alone():
    model, target = new_model(), texts([2] * 5, 37, seed=1)
    with torch.inference_mode():
        decoding = decoding_of(model)
        decoding.memory[1].value[2, 3, 4, 5] = torch.nan
        for tokens in target.T.tolist():
            decoding.read(tokens, range(5))
            assert decoding.logits.isnan().any(dim=1).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("activation", get_args(Activation))
def test_every_activation_of_nan_is_nan(activation):
    model, target = new_model(activation=activation), texts([1] * 5, 37, seed=1)
    with torch.inference_mode():
        model.decoder.blocks[2].feed_forward.widen.bias.fill_(torch.nan)
        assert bool(every_step(model, target)[0].isnan().all())


def test_a_decoding_keeps_the_parameters_that_it_started_with():
    model, target = new_model(), texts([2] * 5, 37, seed=1)
    expected = every_step(model, target)[0]
    with torch.inference_mode():
        decoding = decoding_of(model)
        for parameter in model.parameters():
            parameter.data = torch.full_like(parameter, torch.nan)
        for place, tokens in enumerate(target.T.tolist()):
            decoding.read(tokens, range(5))
            assert torch.equal(decoding.logits, expected[:, place])


def with_other_heads(model):
    attention = model.decoder.blocks[1].self_attention
    attention.n_heads, attention.n_key_heads, attention.d_head = 3, 3, 32


def with_other_cross_heads(model):
    for block in model.decoder.blocks:
        block.cross_attention.n_heads, block.cross_attention.n_key_heads, block.cross_attention.d_head = 3, 3, 32


def with_another_width(model):
    feed_forward = model.decoder.blocks[1].feed_forward
    feed_forward.widen, feed_forward.narrow = torch.nn.Linear(96, 64), torch.nn.Linear(64, 96)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_other_heads, UNLIKE),
        (with_other_cross_heads, UNLIKE),
        (lambda model: setattr(model.decoder.blocks[1].feed_forward, "activation", "gelu"), UNLIKE),
        (with_another_width, UNLIKE),
        (lambda model: setattr(model.decoder.blocks[1], "norm_first", not model.decoder.blocks[1].norm_first), UNLIKE),
        (lambda model: model.double(), NOT_FLOAT32),
        (lambda model: None, None),
    ],
)
def test_a_decoder_that_the_kernel_does_not_support_has_a_reason_and_no_decoding(change, reason):
    model = new_model()
    change(model)
    with torch.inference_mode():
        assert unsupported_reason(model.decoder) == reason
        assert (decoding_of(model) is None) == (reason is not None)


def with_narrow_cross_attention(model):
    for block in model.decoder.blocks:
        block.cross_attention.to_output = torch.nn.Linear(96, 80)


def with_narrow_norms(model):
    for block in model.decoder.blocks:
        block.self_attention_norm = torch.nn.LayerNorm(80)


@pytest.mark.parametrize(
    ("fields", "change", "reason"),
    [
        ({"d_model": 48}, None, "d_head and d_ff must be multiples of 16"),
        ({"d_ff": 40}, None, "d_head and d_ff must be multiples of 16"),
        ({}, with_narrow_cross_attention, UNLIKE),
        ({}, with_narrow_norms, UNLIKE),
        ({}, lambda model: setattr(model.decoder, "norm", torch.nn.LayerNorm(80)), UNLIKE),
        ({}, lambda model: setattr(model.decoder.norm, "bias", torch.nn.Parameter(torch.zeros(80))), UNLIKE),
        ({}, lambda model: setattr(model.decoder.embedding, "by_token", torch.nn.Embedding(37, 80)), UNLIKE),
        ({}, lambda model: setattr(model.decoder, "to_logits", torch.nn.Linear(80, 37)), UNLIKE),
        (
            {},
            lambda model: setattr(model.decoder.embedding, "waves", model.decoder.embedding.waves.double()),
            NOT_FLOAT32,
        ),
        ({}, lambda model: model.decoder.norm.double(), NOT_FLOAT32),
        ({}, lambda model: model.decoder.train(), "the decoder is in training mode"),
        ({}, lambda model: model.decoder.embedding.to("meta"), NOT_FLOAT32),
    ],
)
def test_a_decoder_whose_parts_do_not_fit_together_has_a_reason_and_no_parameters(fields, change, reason):
    model = new_model(**fields)
    with torch.inference_mode():
        if change is not None:
            change(model)
        assert unsupported_reason(model.decoder) == reason
        assert KernelModule.of(model.decoder) is None


def test_without_a_compiler_there_is_no_decoding_by_the_kernel(monkeypatch):
    model = new_model()
    monkeypatch.setattr(supported, "c_function", lambda name: None)
    with torch.inference_mode():
        assert decoding_of(model) is None


@torch.inference_mode()
@pytest.mark.parametrize("lengths", [LENGTHS, torch.full((5,), 33)], ids=["padded", "full"])
def test_each_row_may_continue_any_row_of_the_step_before(lengths):
    model, texts_so_far, sources = new_model(), torch.empty(5, 0, dtype=torch.long), torch.arange(5)
    decoding, random = decoding_of(model, lengths=lengths, rows=9), torch.Generator().manual_seed(3)
    for n_rows in (5, 9, 9, 4, 4, 7, 3, 3, 1, 2):
        rows = torch.randint(len(sources), (n_rows,), generator=random)
        new = torch.randint(4, 37, (n_rows, 1), generator=random)
        texts_so_far, sources = torch.cat([texts_so_far[rows], new], dim=1), sources[rows]
        decoding.read(new[:, 0].tolist(), rows.tolist())
        expected = model(SOURCE[sources], lengths[sources], texts_so_far)
        assert_close(decoding.logits, expected.logits[:, -1], rtol=1e-4, atol=1e-4)
        for pattern, whole in zip(decoding.cross, expected.cross, strict=True):
            assert_close(pattern.dense()[:, :, 0], whole.dense()[:, :, -1], rtol=1e-4, atol=1e-4)


def test_for_more_tokens_than_positions_there_is_no_decoding():
    with torch.inference_mode():
        assert decoding_of(new_model(max_tokens=N_TOKENS)) is not None
        assert decoding_of(new_model(max_tokens=N_TOKENS - 1)) is None


@pytest.mark.parametrize(("tokens", "parents"), [([7, 7], [0]), ([7], [0, 1]), ([7, 7], [0, 5])])
def test_parents_that_do_not_fit_are_refused(tokens, parents):
    with torch.inference_mode():
        decoding = decoding_of(new_model())
    assert refusal(ValueError, decoding.read, tokens, parents) == (
        f"got {len(tokens)} tokens and the parents {parents} for 5 rows; give each token the index of the row that it "
        "continues."
    )


D_HEAD = "d_head must be a multiple of 16, and heads * d_head must be d_model"


def with_a_parent(row):
    return lambda a: ctypes.memmove(a.parents, ctypes.byref(ctypes.c_int64(row)), 8)


def with_a_table_row(row):
    """Return a function that writes into the table that a step reads: the first row's first token is in `row`."""
    return lambda a: (
        a.tokens == 2
        and ctypes.memmove(a.tables + 8 * (a.most_rows * (1 + a.most_tokens) + 1), ctypes.byref(ctypes.c_int64(row)), 8)
    )


WRONG = {
    "blocks": (lambda a: setattr(a, "n_blocks", 0), "there are no blocks"),
    "key_heads": (
        lambda a: setattr(a, "key_heads", 5),
        "heads and key_heads must be above 0, and heads a multiple of key_heads",
    ),
    "d_head": (lambda a: setattr(a, "d_head", 32), D_HEAD),
    "d_model": (lambda a: setattr(a, "d_model", 2**40), D_HEAD),
    "activation": (lambda a: setattr(a, "activation", 9), "the number of the activation is unknown"),
    "gated": (
        lambda a: setattr(a, "gated", 1 - a.gated),
        "the feed-forward layers must have d_model inputs, d_ff hidden numbers (if gated, 2 d_ff) and d_model outputs",
    ),
    "weight": (
        lambda a: setattr(a.stack.blocks[1].key, "weight", None),
        "self-attention's query, key and value layers must have d_model inputs and d_model or key_heads * d_head "
        "outputs",
    ),
    "tokens": (lambda a: setattr(a, "tokens", 2**40), "tokens must be 1 to most_tokens"),
    "too many rows": (lambda a: setattr(a, "most_rows", 4), "rows must be 0 to most_rows"),
    "vocabulary": (lambda a: setattr(a.embedding, "vocabulary", 3), "token ids must be 0 to vocabulary - 1"),
    "positions": (lambda a: setattr(a.embedding, "n_positions", 0), "there must be a vector for each position"),
    "sources": (lambda a: setattr(a, "sources", 4), "the source of a row must be 0 to sources - 1"),
    "lengths": (lambda a: setattr(a, "source_tokens", 32), "lengths must be 0 to source_tokens"),
    "parents": (with_a_parent(5), "parents must be 0 to most_rows - 1"),
    "table": (with_a_table_row(5), "the buffer row of a token must be 0 to most_rows - 1"),
    "scratch": (
        lambda a: setattr(a, "scratch_numbers", 8),
        "rows_at_once must be above 0, and scratch_numbers enough for these rows",
    ),
    "rows": (lambda a: setattr(a, "rows", -1), "rows must be 0 to most_rows"),
    "memory": (lambda a: setattr(a, "x", None), "an array is a null pointer"),
    "source keys": (
        lambda a: setattr(a.source_keys[0], "vectors", None),
        "source_keys or source_values has a null pointer",
    ),
}
"""By the name of a test: a function that makes valid arguments wrong, and the kernel's error message."""


WRONG_PROJECTION = [
    (lambda a: setattr(a, "rows", -1), "n_out must be above 0, and rows at least 0"),
    (lambda a: setattr(a, "logits", None), "an array is a null pointer, or there are too many inputs for integers"),
]


@pytest.mark.parametrize(
    ("function", "spoil", "reason"),
    [
        *(("regard_decoding_step", *case) for case in WRONG.values()),
        *(("regard_project_logits", *case) for case in WRONG_PROJECTION),
    ],
)
def test_wrong_arguments_are_refused(function, spoil, reason, monkeypatch):
    spoil_arguments(monkeypatch, module, spoil, function)
    message = f"{function} refuses its arguments: {reason}; please report this."
    assert refusal(RuntimeError, every_step, new_model(), texts([3] * 5, 37, seed=1)) == message
