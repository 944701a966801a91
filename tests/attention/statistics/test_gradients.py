"""Tests of the gradients of statistics: torch's numerical differences, and the memory of the backward pass."""

import pytest
import torch
import torch.nn.functional as F
from oracle import Largest
from torch.autograd import gradcheck, gradgradcheck

from regard import Alibi, Ask, Causal, ScaledDot, Softmax, Sparsemax, Window, attend
from regard.attention import weights

GROUPS = torch.arange(7) % 3 == torch.arange(2)[:, None]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Compute two queries at a time."""
    monkeypatch.setattr(weights, "BLOCK_WEIGHTS", 60)


@pytest.mark.parametrize(
    ("reduce", "options"),
    [
        ("mean", {"mask": Causal()}),
        ("sum", {"mask": Window(2, 1), "score": ScaledDot(softcap=2.0)}),
        ("max", {"score": ScaledDot(bias=Alibi())}),
        ("max", {"normalise": Sparsemax()}),
    ],
)
def test_every_statistic_has_the_gradients_of_its_weights(normal, reduce, options):
    query, key = normal(1, 4, 6, 3, dtype=torch.float64), normal(1, 2, 7, 3, dtype=torch.float64)

    def statistics(query, key):
        asked = Ask(own=True, previous=True, groups=GROUPS, top=3, pooled=(2, 3), reduce=reduce)
        found = attend(query, key, key, ask=asked, **options).pattern.statistics
        *rest, top, pooled = (getattr(found, name) for name in found.__slots__ if name != "ask")
        return *rest, top.weights, pooled

    assert gradcheck(statistics, (query.requires_grad_(), key.requires_grad_()), fast_mode=True)


def test_sinks_and_half_precision(normal):
    sinks = normal(4).requires_grad_()
    query, key = normal(1, 4, 6, 3), normal(1, 2, 7, 3)
    pattern = attend(query, key, key, normalise=Softmax(sinks=sinks)).pattern
    (found,) = torch.autograd.grad(pattern.entropy().sum(), sinks)
    dense = pattern.dense()
    (wanted,) = torch.autograd.grad(torch.special.entr(dense).sum(), sinks)
    torch.testing.assert_close(found, wanted)
    half = query.bfloat16().requires_grad_()
    attend(half, key.bfloat16(), key.bfloat16()).pattern.received().square().sum().backward()
    same = half.detach().float().requires_grad_()
    attend(same, *[key.bfloat16().float()] * 2).pattern.dense().sum(dim=2).square().sum().backward()
    torch.testing.assert_close(half.grad, same.grad.bfloat16())


def test_the_largest_weight_of_a_cell_has_its_gradient_in_float32_too(normal):
    query = normal(1, 2, 8, 4).requires_grad_()
    pattern = attend(query, query, query).pattern
    (found,) = torch.autograd.grad(pattern.pooled(2, 4, "max").square().sum(), query)
    (wanted,) = torch.autograd.grad(F.max_pool2d(pattern.dense(), (4, 2)).square().sum(), query)
    torch.testing.assert_close(found, wanted)


def entropies(pattern):
    weights = pattern.dense()
    return -weights * weights.clamp_min(1e-300).log()


def test_torch_func_differentiates_statistics(normal):
    query = normal(1, 2, 5, 3, dtype=torch.float64)

    def loss(query, read):
        return read(attend(query, query, query, mask=Causal()).pattern).sum()

    by_func = torch.func.grad(lambda x: loss(x, lambda pattern: pattern.entropy()))(query)
    leaf = query.clone().requires_grad_()
    loss(leaf, lambda pattern: entropies(pattern)).backward()
    torch.testing.assert_close(by_func, leaf.grad)


def test_no_pass_builds_the_matrix(normal, monkeypatch):
    monkeypatch.setattr(weights, "BLOCK_WEIGHTS", 2**14)
    query = normal(1, 1, 2000, 4).requires_grad_()
    with Largest() as forward:
        summary = attend(query, query, query, mask=Causal(), ask=Ask(top=2, pooled=(9, 9))).pattern.statistics
    with Largest() as backward:
        (summary.entropy.sum() + summary.received.square().sum() + summary.top.weights.sum()).backward()
    assert forward.numbers <= 2**20 < 2000 * 2000  # the masks of torch's kernel
    assert backward.numbers <= 2**15


def test_without_gradients_nothing_is_kept(normal):
    query = normal(1, 1, 5, 4)
    assert not attend(query, query, query, ask=Ask()).pattern.statistics.entropy.requires_grad
    with torch.no_grad():
        assert not attend(query.requires_grad_(), query, query).pattern.entropy().requires_grad


def test_second_derivatives(normal):
    query, key = normal(1, 2, 4, 3, dtype=torch.float64), normal(1, 2, 5, 3, dtype=torch.float64)
    assert gradgradcheck(
        lambda query, key: attend(query, key, key, mask=Causal()).pattern.entropy(),
        (query.requires_grad_(), key.requires_grad_()),
        fast_mode=True,
    )
