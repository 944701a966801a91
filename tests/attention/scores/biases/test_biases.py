"""Tests of every bias: its equation number by number, exactness, and that no bias for all queries × keys is built."""

from itertools import cycle

import pytest
import torch
from kinds import BIASES
from oracle import HALF, Largest, Saved, correct, eager, matrix, near
from refusals import refusal
from torch.testing import assert_close

import regard.attention.backends.fused as fused_backend
from regard import Alibi, Causal, Documents, Keep, Padding, ScaledDot, Softmax, Window, attend
from regard.attention.backends.reference import reference
from regard.attention.grid.grid import Grid
from regard.attention.weights import BLOCK_WEIGHTS

CPU = torch.device("cpu")
GRID = Grid(2, 6, 11, 19)


def expected_bias(name, grid=GRID):
    """Return a bias as a tensor in float64, computed number by number from its equation."""
    bias, numbers = BIASES[name].build(grid), torch.zeros(grid.shape, dtype=torch.float64)
    with torch.no_grad():
        for b, h, i, j in torch.cartesian_prod(*map(torch.arange, grid.shape)).tolist():
            numbers[b, h, i, j] = BIASES[name].expected(bias, grid, b, h, i, j)
    return numbers


@pytest.mark.parametrize("grid", [GRID, Grid(1, 5, 7, 3)], ids=str)
@pytest.mark.parametrize("name", BIASES)
def test_the_numbers_are_those_of_the_equation(name, grid):
    found = BIASES[name].build(grid)(grid.whole(), CPU, torch.float64)
    near(found.expand(grid.shape), expected_bias(name, grid))


MASKS = {
    "none": (None, lambda b, h, i, j: True),
    "causal": (Causal(), lambda b, h, i, j: j <= i + 8),
    "causal from the start": (Causal(0), lambda b, h, i, j: j <= i),
    "padding": (Padding(torch.tensor([3, 17])), lambda b, h, i, j: j < [3, 17][b]),
    "window": (Window(2, 1), lambda b, h, i, j: -2 <= j - i - 8 <= 1),
    "window before the start": (Window(0, 0, offset=-3), lambda b, h, i, j: j == i - 3),
    "keep by key": (Keep(torch.arange(19) % 3 > 0), lambda b, h, i, j: j % 3 > 0),
    "keep by head": (torch.arange(6)[:, None, None] != 2, lambda b, h, i, j: h != 2),
    "documents": (Documents(torch.arange(19) // 5), lambda b, h, i, j: (i + 8) // 5 == j // 5),
}

PAIRS = list(zip(cycle(BIASES), MASKS, strict=False))
"""Pairs of names (bias, mask), in which each mask and each bias comes at least once."""


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF])
@pytest.mark.parametrize(("name", "mask"), PAIRS)
def test_attend_is_as_exact_as_plain_torch(normal, name, mask, dtype):
    rule, (mask, sees) = BIASES[name].build(GRID), MASKS[mask]
    query, key, value = (normal(2, h, n, 11).to(dtype) for h, n in ((6, 11), (3, 19), (3, 19)))
    keep, bias = matrix(sees, 2, 6, 11, 19), expected_bias(name)
    with torch.no_grad():  # a trained bias goes to another backend
        seen = attend(query, key, value, mask=mask, score=ScaledDot(bias=rule), normalise=Softmax(temperature=0.5))
    assert seen.backend == "fused"
    context, weights = reference(query, key, value, keep=keep, bias=bias, temperature=0.5)
    if dtype == torch.float64:
        near(seen.context, context)
        near(seen.pattern.dense(), weights)
        return
    control = eager(query, key, value, keep=keep, bias=bias, temperature=0.5)
    correct(seen.context.detach(), context, control[0])
    correct(seen.pattern.dense().detach(), weights, control[1])


@pytest.mark.parametrize("dtype", HALF)
def test_the_pattern_rounds_a_rule_as_the_kernel_does(normal, dtype):
    # slopes so steep that a bias in float32 would give other weights than one in a half type
    rule, query = Alibi(slopes=torch.tensor([3.0071, -5.0123])), torch.zeros(1, 2, 211, 5, dtype=dtype)
    seen = attend(query, query, torch.eye(211, dtype=dtype).expand(1, 2, -1, -1), score=ScaledDot(bias=rule))
    rounded = torch.stack([-s * (torch.arange(211) - torch.arange(211)[:, None]).abs() for s in rule.slopes]).to(dtype)
    assert torch.equal(seen.pattern.scores()[0], rounded.float())
    assert_close(seen.context.float(), seen.pattern.dense(), rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("name", ["Alibi, last", "RelativeBias", "Forgetting"])
def test_the_last_queries_alone_have_the_same_biases_as_among_all(normal, name):
    x, score = normal(1, 6, 19, 5), ScaledDot(bias=BIASES[name].build(Grid(1, 6, 19, 19)))
    whole = attend(x, x, x, score=score, mask=Causal())
    last = attend(x[:, :, 16:], x, x, score=score, mask=Causal())
    assert_close(last.context, whole.context[:, :, 16:])
    assert_close(last.pattern[0, 2], whole.pattern[0, 2, 16:])


# Memory


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        *[("Alibi, last", mask) for mask in (None, Causal(), Padding(torch.tensor([4001])))],
        ("RelativeBias", Causal()),
        ("Forgetting", None),
    ],
    ids=repr,
)
def test_the_matrix_is_never_built(normal, name, mask):
    query, key = normal(1, 1, 4099, 5).requires_grad_(), normal(1, 1, 4099, 5)
    rule = BIASES[name].build(Grid(1, 1, 4099, 4099))
    with Largest() as forward, Saved() as saved:
        seen = attend(query, key, key, score=ScaledDot(bias=rule), mask=mask)
    with Largest() as backward:
        seen.context.sum().backward()
    trained = BIASES[name].parametric  # on a CPU the fused kernel would build the weights for a bias with parameters
    assert seen.backend == ("tiled" if trained else "fused")
    block = BLOCK_WEIGHTS if trained else fused_backend.BLOCK_QUERIES * 4099
    assert max(forward.numbers, backward.numbers) <= block < 4099**2 / (4 if trained else 15)
    assert trained or saved.bytes > 0
    assert saved.bytes < 4099 * 4 * 100  # 100 numbers for each token
    with torch.no_grad(), Largest() as look:
        rows = seen.pattern[0, 0, [0, 4098]]
    assert look.numbers <= 5 * 4099
    assert rows.shape == (2, 4099)


def test_dropout_is_the_same_in_the_backward_pass(normal):
    query = normal(1, 1, 17, 5).requires_grad_()
    torch.manual_seed(3)
    context = attend(
        query, query.detach(), torch.eye(17)[None, None], score=ScaledDot(bias=Alibi()), dropout=0.5
    ).context
    dropped = context == 0
    (gradient,) = torch.autograd.grad(context[dropped].sum(), query)
    assert bool(dropped.any())
    assert torch.equal(gradient, torch.zeros_like(query))


def test_a_bias_that_is_a_number_is_refused(without_type_checks):
    assert refusal(TypeError, lambda: ScaledDot(bias=0.5)) == (
        "bias is a float; it takes a tensor that broadcasts to [batch heads queries keys], a rule such as Alibi(), "
        "or None."
    )
