"""Entmax: against the entmax package and what its weights must satisfy, its gradient, its limits, by hand."""

import math

import pytest
import torch
from entmax import entmax15, entmax_bisect
from oracle import near, row
from refusals import refusal
from torch.testing import assert_close

from regard import Entmax, Sparsemax
from regard.attention.grid.grid import Grid
from regard.attention.normalise.entmax import by_sorting

WHOLE = Grid(1, 2, 3, 7).whole()
ALPHAS = [1.001, 1.25, 1.5, 1.75, 2.0, 2.5, 4.0]


def weights(alpha, scores, keep=None):
    return Entmax(alpha=alpha)(scores, keep, WHOLE)


def test_by_hand():
    # alpha 3/2: the roots of the weights differ by half of what the scores do; 0.8² + 0.6² = 1
    near(weights(1.5, row(0.4, 0.0)), row(0.64, 0.36))
    near(weights(1.5, row(0.4, 0.0, -1.3)), row(0.64, 0.36, 0.0))
    near(weights(1.5, row(2.0, 0.0)), row(1.0, 0.0))
    # alpha 3: the squares of the weights differ by twice what the scores do; 0.6² - 0.4² = 0.2
    near(weights(3.0, row(0.1, 0.0)), row(0.6, 0.4))
    near(weights(3.0, row(0.1, 0.0, -0.09)), row(0.6, 0.4, 0.0))
    for alpha in ALPHAS:
        near(weights(alpha, row(0.3, 0.3, 0.3)), row(1 / 3, 1 / 3, 1 / 3))
        near(weights(alpha, row(-7.0)), row(1.0))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_satisfy_the_definition(normal, alpha):
    spread = torch.tensor([0.1, 1.0, 3.0], dtype=torch.float64)[:, None]
    scores = spread * normal(1, 2, 3, 7, dtype=torch.float64)
    found = weights(alpha, scores)
    # score - weight^(alpha-1) / (alpha-1) is the threshold if the weight is not 0; else the score is at most that
    rest = scores - (found ** (alpha - 1) - 1) / (alpha - 1)
    threshold = rest.where(found > 0, torch.nan).nanmean(dim=-1, keepdim=True)
    torch.testing.assert_close(rest.where(found > 0, threshold), threshold.expand_as(rest), rtol=0, atol=1e-8)
    assert bool((scores <= threshold + 1 / (1 - alpha) + 1e-8).where(found == 0, torch.tensor(True)).all())
    near(found.sum(-1), torch.ones(1, 2, 3, dtype=torch.float64))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_are_those_of_the_entmax_package(normal, alpha):
    scores = 2 * normal(1, 2, 3, 7, dtype=torch.float64)
    expected = entmax_bisect(scores, alpha, dim=-1, n_iter=100)
    torch.testing.assert_close(weights(alpha, scores), expected, rtol=0, atol=1e-7 if alpha > 2 else 1e-11)
    near(weights(1.5, scores), entmax15(scores, dim=-1))


def test_alpha_1_is_softmax_and_2_is_sparsemax(normal):
    scores = normal(1, 2, 3, 7)
    assert torch.equal(weights(1.0, scores), scores.softmax(-1))
    assert torch.equal(weights(2.0, scores), Sparsemax()(scores, None, WHOLE))


@pytest.mark.parametrize("at", [1.0, 1.5, 2.0])
def test_weights_change_smoothly_with_alpha(normal, at):
    scores = normal(1, 2, 3, 7, dtype=torch.float64)
    for alpha in (at + 1e-7, max(at - 1e-7, 1.0)):
        torch.testing.assert_close(weights(alpha, scores), weights(at, scores), rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_of_many_keys_in_float32_are_those_of_float64(normal, alpha):
    scores = torch.tensor([0.001, 0.1, 1.0])[:, None] * normal(1, 1, 3, 4099)
    truth = weights(alpha, scores.double())
    torch.testing.assert_close(weights(alpha, scores).double(), truth, rtol=1e-3, atol=2e-7)
    torch.testing.assert_close(weights(alpha, scores).double().sum(-1), truth.sum(-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_gradients_are_those_of_the_entmax_package(normal, alpha):
    scores = normal(1, 2, 3, 7, dtype=torch.float64).requires_grad_()
    keep = torch.rand(1, 2, 3, 7, generator=torch.Generator().manual_seed(2)) < 0.7
    keep[0, 1, 2] = False
    assert torch.autograd.gradcheck(lambda x: weights(alpha, x, keep), scores)
    assert torch.autograd.gradgradcheck(lambda x: weights(alpha, x, keep), scores, fast_mode=True)
    upstream = normal(1, 2, 3, 7, dtype=torch.float64)
    (found,) = torch.autograd.grad(weights(alpha, scores), scores, upstream)
    (expected,) = torch.autograd.grad(entmax_bisect(scores, alpha, dim=-1, n_iter=100), scores, upstream)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_score_of_minus_infinity_has_no_weight_and_nan_makes_its_row_nan(normal, alpha):
    scores = row(0.2, -math.inf, 0.0, -1e300).requires_grad_()
    found = weights(alpha, scores)
    assert found[..., [1, 3]].tolist() == [[[[0.0, 0.0]]]]
    near(found[..., [0, 2]], weights(alpha, row(0.2, 0.0)))
    (gradient,) = torch.autograd.grad(found[..., 0].sum(), scores)
    assert gradient[..., [1, 3]].tolist() == [[[[0.0, 0.0]]]]
    assert bool((gradient[..., [0, 2]].abs() > 0.1).all())
    broken = normal(1, 2, 3, 7)
    broken[0, 1, 2, 3] = math.nan
    assert weights(alpha, broken).isnan().all(-1).nonzero().tolist() == [[0, 1, 2]]


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("alpha", [0.999, -1.0, math.inf, math.nan, "1.5"])
def test_an_alpha_out_of_range_is_refused(alpha):
    assert refusal(ValueError, lambda: Entmax(alpha=alpha)) == (
        f"alpha={alpha!r} is out of range: entmax takes a finite alpha of at least 1 (1 = softmax, 2 = sparsemax); "
        "for all weight on the largest score use Softmax(temperature=0)."
    )


@pytest.mark.parametrize("keys", [10_000, 100_000])
@pytest.mark.parametrize("largest", [1.5, 1.9, 1.99])
def test_rows_of_many_keys_near_the_threshold_sum_to_1(keys, largest):
    scores = torch.zeros(1, 1, 1, keys)
    scores[..., 0] = largest
    weights = by_sorting(scores)
    assert weights.dtype == torch.float32
    assert weights.double().sum().item() == pytest.approx(1.0, abs=1e-6)
    assert_close(weights.double(), by_sorting(scores.double()), rtol=0, atol=1e-6)
