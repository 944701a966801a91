"""Tests of dropout: the number of zeros, the gradient, and torch's dropout in the cases that ours does not support."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from regard.transformer import dropout
from regard.transformer.dropout import Dropout, Residual, draw_keep_mask, draw_threshold

N = 2**21


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def assert_binomial(count: int, n: int, chance: float) -> None:
    """Fail unless `count` of n random events with probability `chance` is within five standard deviations."""
    assert abs(count - n * chance) < 5 * math.sqrt(n * chance * (1 - chance)), (count, n * chance)


@pytest.mark.parametrize("p", [2**-16, 0.1, 0.3, 0.5, 0.9, 1 - 2**-16])
def test_numbers_are_dropped_with_probability_p(p):
    """If the integer bound were wrong by one, the smallest and largest p would drop nothing or twice as many."""
    kept = draw_keep_mask(torch.empty(N), p)
    assert_binomial(int((kept == 0).sum()), N, p)
    assert ((kept == 0) | (kept == 1)).all()


@pytest.mark.parametrize("apart", [1, 2, 3, 4])
def test_numbers_of_one_draw_are_independent(apart):
    kept = draw_keep_mask(torch.empty(N), 0.3)
    both = (kept[:-apart] * kept[apart:])[:: 2 * apart]  # pairs that share no number
    assert_binomial(int(both.sum()), len(both), 0.7**2)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_each_quarter_of_a_draw_has_the_same_probability(place):
    assert_binomial(int(draw_keep_mask(torch.empty(N), 0.3)[place::4].sum()), N // 4, 0.7)


@pytest.mark.parametrize("p", [0.1, 0.3, 1 / 3])
def test_the_mean_of_the_16_bit_thresholds_is_p(p):
    n, share = 10_000, p * 2**16 % 1
    thresholds = torch.tensor([draw_threshold(p) for _ in range(n)])
    assert set(thresholds.tolist()) == {math.floor(p * 2**16), math.ceil(p * 2**16)}
    assert_binomial(int((thresholds == math.ceil(p * 2**16)).sum()), n, share)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 5, 7), (3,), (), (0, 3)])
def test_kept_numbers_and_their_gradients_are_divided_by_1_minus_p(normal, shape, dtype):
    x, added = (normal(*shape, dtype=dtype).requires_grad_() for _ in range(2))
    for output, other in ((Dropout(0.3)(x), 0.0), (Residual(0.3)(added, x), added)):
        kept = (output - other).abs() > 1e-6
        assert_close(output, other + x * kept / 0.7)
        (by_x,) = torch.autograd.grad(output.sum(), x, retain_graph=True)
        assert_close(by_x, kept / torch.tensor(0.7, dtype=dtype))
    assert_close(torch.autograd.grad(output.sum(), added)[0], torch.ones_like(added))


def test_equal_seeds_drop_the_same_numbers_in_any_memory_layout(normal):
    x = normal(3, 5, 7).transpose(0, 2)
    torch.manual_seed(3)
    first = Dropout(0.5)(x)
    torch.manual_seed(3)
    assert_close(Dropout(0.5)(x.contiguous()), first, rtol=0, atol=0)
    assert not torch.equal(Dropout(0.5)(x), first)


@pytest.mark.parametrize(("p", "training"), [(0.3, False), (0.0, True)])
def test_nothing_is_dropped_outside_of_training_or_for_p_of_0(normal, p, training):
    x, output = normal(2, 3), normal(2, 3)
    assert Dropout(p).train(training)(x) is x
    assert torch.equal(Residual(p).train(training)(x, output), x + output)


@pytest.mark.parametrize(
    ("dtype", "p", "compiled"),
    [(torch.bfloat16, 0.3, False), (torch.float32, 2**-17, False), (torch.float32, 0.3, True)],
    ids=["half precision", "too rare for 16 bits", "compiled"],
)
def test_torchs_dropout_is_used_where_ours_is_not_supported(normal, monkeypatch, dtype, p, compiled):
    x, added = normal(100, 7).to(dtype), normal(100, 7)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiled)
    monkeypatch.setattr(dropout, "draw_keep_mask", None)
    torch.manual_seed(3)
    expected = F.dropout(x, p)
    torch.manual_seed(3)
    assert torch.equal(Dropout(p)(x), expected)
    torch.manual_seed(3)
    assert torch.equal(Residual(p)(added, x), added + expected)


def test_under_checkpointing_the_backward_pass_drops_the_same_numbers(normal):
    x, layer = normal(11, 13).requires_grad_(), Residual(0.5)
    output = checkpoint(lambda x: layer(x, x).square(), x, use_reentrant=False)
    (by_x,) = torch.autograd.grad(output.sum(), x)
    assert_close(by_x * x, 2 * output)
