"""Tests of the tiled backend: which calls its C kernel computes, and which are computed by torch's operations.

The results of torch's operations are tested in test_attend.py, test_laws.py and test_gradients.py.
"""

from itertools import cycle

import pytest
import torch
from oracle import BATCH, D_KEY, D_VALUE, DTYPES, HEADS, KEY_HEADS, MASKS, correct, eager, masks, matrix, stages
from refusals import refusal
from torch.testing import assert_close

from regard import (
    Additive,
    Alibi,
    Ask,
    Bias,
    Causal,
    Keep,
    Padding,
    ScaledDot,
    Shaw,
    Sigmoid,
    Softmax,
    Window,
    attend,
    explain_backend,
    use_backend,
)
from regard.attention.backends import choose
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.scores.biases.bias import distances
from regard.attention.scores.score import Score
from regard.attention.statistics.cpu import engine

SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0, -3.0, 1.0])
OPTIONS = {
    "all": {"sinks": SINKS, "softcap": 1.5, "temperature": 0.7, "scale": 0.9},
    "sinks": {"sinks": SINKS},
    "softcap": {"softcap": 1.5},
}


@pytest.fixture
def passes(monkeypatch):
    """Return the list of the calls that the C kernel has computed."""
    assert engine.c_function("regard_attention") is not None, "these tests need a C compiler"
    monkeypatch.setattr(choose, "has_avx2", lambda: True)  # the same choices on every processor
    seen, read = [], engine.context_and_statistics
    monkeypatch.setattr(
        engine,
        "context_and_statistics",
        lambda asked, *rest, **named: seen.append(asked) or read(asked, *rest, **named),
    )
    return seen


@pytest.mark.parametrize(
    ("queries", "keys", "name", "dtype", "options"),
    [(*case, dtype, options) for case, dtype, options in zip(MASKS, cycle(DTYPES), cycle(OPTIONS))],
)
def test_contexts_of_the_c_kernel_are_right(normal, passes, queries, keys, name, dtype, options):
    mask, sees = masks(queries, keys)[name]
    options = OPTIONS[options]
    query = normal(BATCH, HEADS, queries, D_KEY, dtype=dtype)
    key, value = normal(1, KEY_HEADS, keys, D_KEY, dtype=dtype), normal(BATCH, KEY_HEADS, keys, D_VALUE, dtype=dtype)
    keep = matrix(sees, BATCH, HEADS, queries, keys)
    truth, control = (
        eager(*(x.to(wide).expand(BATCH, -1, -1, -1) for x in (query, key, value)), keep=keep, **options)[0]
        for wide in (torch.float64, dtype)
    )
    seen = attend(query, key, value, mask=mask, **stages(**options))
    assert seen.backend == "tiled"
    assert len(passes) == 1
    assert seen.context.dtype == dtype
    correct(seen.context, truth, control)
    assert not seen.context[~keep.any(-1)].any()


SCORES = {
    "a bias that is a rule": lambda: ScaledDot(softcap=2.0, bias=Alibi(torch.tensor([0.5, 0.1]))),
    "a hidden layer": lambda: Additive(4, 4, 5),
    "relative keys": lambda: Shaw(4, 3),
}


@pytest.mark.parametrize("score", SCORES)
def test_the_c_kernel_takes_any_score(normal, passes, score):
    query, key, value = normal(3, 2, 2, 23, 4).unbind()
    mask = Causal() & Padding(torch.tensor([23, 17]))
    with torch.no_grad():
        seen = attend(query, key, value, score=SCORES[score](), mask=mask)
    assert len(passes) == 1
    assert_close(seen.context, seen.pattern.dense() @ value)


@pytest.mark.parametrize("softcap", [1e-44, 1e30])
@pytest.mark.parametrize("temperature", [1.0, 1e-38])
def test_a_softcap_and_a_temperature_may_be_out_of_the_range_of_float32(normal, passes, softcap, temperature):
    """Scores whose product is 0 stay 0, and all other scores keep their sign."""
    query, value = torch.tensor([0.0, 1.0]).view(1, 1, 2, 1), normal(1, 1, 3, 5)
    key = torch.tensor([-1.0, 0.0, 2.0]).view(1, 1, 3, 1)
    seen = attend(query, key, value, **stages(softcap=softcap, temperature=temperature))
    assert len(passes) == 1
    assert_close(seen.context[0, 0, 0], value[0, 0].mean(0))
    assert_close(seen.context, (seen.pattern.dense().double() @ value.double()).float())


UNEQUAL_ROWS = {
    "causal": {"mask": Causal()},
    "a window": {"mask": Window(9, 0)},
    "a matrix": {"mask": Keep(torch.rand(1, 1, 300, 300, generator=torch.Generator().manual_seed(3)) < 0.5)},
    "a bias": {"score": ScaledDot(bias=torch.linspace(-1, 1, 300)[:, None] * torch.linspace(-2, 2, 300))},
    "a rule": {"score": ScaledDot(bias=Alibi())},
}
EQUAL_ROWS = {
    "none": {},
    "padding": {"mask": Padding(torch.tensor([217]))},
    "a bias": {"score": ScaledDot(bias=torch.ones(300))},
}


@pytest.mark.parametrize("kind", UNEQUAL_ROWS)
def test_a_call_whose_queries_see_different_keys_is_left_to_the_c_kernel(normal, passes, kind):
    many = normal(1, 6, 300, 4)
    with use_backend("fused"):
        expected = attend(many, many, many, **UNEQUAL_ROWS[kind])
    assert passes == []
    seen = attend(many, many, many, **UNEQUAL_ROWS[kind])
    assert (seen.backend, expected.backend, len(passes)) == ("tiled", "fused", 1)
    assert_close(seen.context, expected.context, rtol=1e-5, atol=1e-5)
    assert explain_backend(many, many, many, **UNEQUAL_ROWS[kind]) == (
        "tiled: exact, and faster than the fused kernel for this call"
    )


@pytest.mark.parametrize("kind", EQUAL_ROWS)
def test_a_call_whose_queries_see_the_same_keys_is_left_to_the_c_kernel_in_float32_alone(normal, passes, kind):
    many = normal(1, 6, 300, 4)
    with use_backend("fused"):
        expected = attend(many, many, many, **EQUAL_ROWS[kind])
    seen = attend(many, many, many, **EQUAL_ROWS[kind])
    assert (seen.backend, expected.backend, len(passes)) == ("tiled", "fused", 1)
    assert_close(seen.context, expected.context, rtol=1e-5, atol=1e-5)
    half = many.bfloat16()
    assert attend(half, half, half, **EQUAL_ROWS[kind]).backend == "fused"
    assert attend(half, half, half, mask=Causal()).backend == "tiled"


@pytest.mark.parametrize("mask", [None, Causal()])
def test_the_fused_kernel_computes_few_weights_gradients_and_without_avx2(normal, passes, monkeypatch, mask):
    many, few, short = normal(1, 6, 74, 4), normal(1, 6, 73, 4), normal(8, 6, 33, 4)
    assert attend(many, many, many, mask=mask).backend == "tiled"
    assert attend(few, few, few, mask=mask).backend == "fused"
    assert attend(short, short, short, mask=mask).backend == "fused"  # many weights, but few in each head
    long = normal(1, 6, 9000, 4)
    assert attend(few[:, :, :1], long, long, mask=mask).backend == "fused"  # one query
    assert attend(many.clone().requires_grad_(), many, many, mask=mask).backend == "fused"
    with monkeypatch.context() as narrow:
        narrow.setattr(choose, "has_avx2", lambda: False)
        assert attend(many, many, many, mask=mask).backend == "fused"
    monkeypatch.setattr(engine, "c_function", lambda name: None)
    assert attend(many, many, many, mask=mask).backend == "fused"
    assert len(passes) == 1


def test_torchs_operations_compute_what_the_c_kernel_does_not_support(normal, passes, monkeypatch):
    x, score = normal(1, 2, 9, 4), ScaledDot(softcap=2.0)
    found = [attend(x, x, x, normalise=normalise).context for normalise in (Sigmoid(), Softmax(0.0))]
    found += [attend(x.double(), x.double(), x.double(), score=score).context]
    trained = x.clone().requires_grad_()
    attend(trained, x, x, score=score).context.sum().backward()
    assert trained.grad.any()
    sinks = torch.zeros(2, requires_grad=True)
    attend(x, x, x, normalise=Softmax(sinks=sinks)).context.sum().backward()
    assert sinks.grad.any()
    with use_backend("tiled"):
        assert (attend(x, x, torch.ones_like(x), dropout=0.5).context != 1).any()
    monkeypatch.setattr(engine, "c_function", lambda name: None)
    assert_close(attend(x, x, x, score=score).context, found[2].float())
    assert passes == []


def test_torchs_operations_compute_fake_tensors(passes):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.zeros(1, 2, 9, 4)
        assert attend(x, x, x, score=ScaledDot(softcap=2.0)).context.shape == x.shape
    assert passes == []


def test_a_long_call_draws_no_bar(normal, passes, monkeypatch, capsys):
    """No progress bar: the call may be a part of a model's forward pass."""
    monkeypatch.setattr("regard.attention.progress.PATIENCE_SECONDS", 0.0)
    x = normal(1, 2, 300, 4)
    attend(x, x, x, score=ScaledDot(softcap=2.0))
    assert len(passes) == 1
    assert capsys.readouterr() == ("", "")


SHAPES = {"queries keys": lambda numbers: numbers[0, 0], "heads queries keys": lambda numbers: numbers[0]}
SHAPES["keys"] = lambda numbers: numbers[:, :, :1]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ask", [None, Ask()])
def test_a_score_of_ones_own_has_the_shape_of_its_tile(shape, ask):
    class Own(Score):
        def __call__(self, query, key, tile):
            return SHAPES[shape](query @ key.mT)

    x = torch.ones(2, 3, 5, 7)
    returned = list(SHAPES[shape](torch.ones(1, 1, 5, 5)).shape)
    assert refusal(ValueError, attend, x, x, x, score=Own(), ask=ask) == (
        f"Own returned a tensor of shape {returned} for a tile of shape [1, 1, 5, 5] (batch, heads, queries, keys); "
        "it must have this shape."
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_of_a_normaliser_of_ones_own_have_the_shape_of_their_tile(shape):
    class Own(torch.nn.Module, Normaliser):
        def forward(self, scores, keep, tile):
            return SHAPES[shape](scores)

    x = torch.ones(2, 3, 5, 7)
    returned = list(SHAPES[shape](torch.ones(2, 3, 5, 5)).shape)
    assert refusal(ValueError, attend, x, x, x, normalise=Own()) == (
        f"Own returned a tensor of shape {returned} for a tile of shape [2, 3, 5, 5] (batch, heads, queries, keys); "
        "it must have this shape."
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backend", ["fused", "tiled"])
def test_a_bias_of_ones_own_has_four_axes_of_its_tile(shape, backend):
    class Own(Bias):
        def __call__(self, tile, device, dtype=torch.float32):
            return SHAPES[shape](distances(tile, device).to(dtype).expand(tile.shape))[..., :2]

    x = torch.ones(2, 3, 5, 7)
    with use_backend(backend):
        message = refusal(ValueError, attend, x, x, x, score=ScaledDot(bias=Own()))
    tile = [2, 3, 5, 5] if backend == "fused" else [1, 1, 5, 5]
    returned = list(SHAPES[shape](torch.ones(tile))[..., :2].shape)
    assert message == (
        f"Own returned a tensor of shape {returned} for a tile of shape {tile} (batch, heads, queries, keys); it must "
        "have these four axes, each of that size or of size 1. tile.query_positions and tile.key_positions have four "
        "axes, and tile.select(tensor) is the tile's part of a larger tensor."
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_scores_and_weights_of_another_type_are_converted(dtype):
    class OwnScore(Score):
        def __call__(self, query, key, tile):
            return (query @ key.mT).to(dtype)

    class OwnNormaliser(Normaliser):
        def weights(self, masked, tile):
            return torch.softmax(masked, dim=-1).to(dtype)

    x = 2 * torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(7)).round()
    seen = attend(x, x, x, score=OwnScore(), normalise=OwnNormaliser())
    expected = torch.softmax(x @ x.mT, dim=-1).to(dtype).float()
    assert seen.pattern.dense().dtype == torch.float32
    torch.testing.assert_close(seen.pattern.dense(), expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(seen.context, expected @ x, atol=1e-2, rtol=0)
    assert seen.pattern.top(2).keys.shape == (2, 3, 5, 2)


def test_a_masked_key_has_weight_0_whatever_a_normaliser_of_ones_own_returns():
    class Uniform(Normaliser):
        def weights(self, masked, tile):
            return torch.full_like(masked, 1 / masked.shape[-1])

    x = torch.randn(1, 2, 5, 7)
    weights = attend(x, x, x, mask=Causal(), normalise=Uniform()).pattern.dense()
    torch.testing.assert_close(weights, torch.full((1, 2, 5, 5), 0.2).tril())


def test_a_normaliser_without_weights_is_refused():
    class Own(Normaliser):
        pass

    x = torch.ones(1, 2, 5, 3)
    assert refusal(TypeError, attend, x, x, x, normalise=Own()) == (
        "Own has no method weights(masked_scores, tile), which turns scores into weights."
    )
