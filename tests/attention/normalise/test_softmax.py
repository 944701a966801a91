"""Tests of Softmax: by hand, its limits, queries whose keys are all masked out, refusals."""

import math

import numpy as np
import pytest
import torch
from oracle import near
from refusals import refusal

from regard import Entmax, Hard, Sampled, Softmax, attend
from regard.attention.grid.grid import Grid

GRID = Grid(1, 2, 1, 3)
SCORES = torch.tensor([0.0, math.log(2), math.log(5)], dtype=torch.float64).expand(1, 2, 1, 3)


def weights(normalise, keep=None, scores=SCORES):
    keep = None if keep is None else torch.tensor(keep)[None, None, None]
    return normalise(scores, keep, GRID.whole())


def numbers(*rows):
    return torch.tensor(rows, dtype=torch.float64)[None, :, None]


def test_by_hand():
    near(weights(Softmax()), numbers([1 / 8, 2 / 8, 5 / 8], [1 / 8, 2 / 8, 5 / 8]))
    near(weights(Softmax(temperature=0.5)), numbers([1 / 30, 4 / 30, 25 / 30], [1 / 30, 4 / 30, 25 / 30]))
    near(weights(Softmax(), [True, True, False]), numbers([1 / 3, 2 / 3, 0], [1 / 3, 2 / 3, 0]))
    sinks = torch.tensor([0.0, math.log(8)], dtype=torch.float64)
    near(weights(Softmax(sinks=sinks)), numbers([1 / 9, 2 / 9, 5 / 9], [1 / 16, 2 / 16, 5 / 16]))


def test_temperature_0_gives_all_to_the_largest_and_ties_share():
    near(weights(Softmax(temperature=0.0)), numbers([0, 0, 1], [0, 0, 1]))
    near(weights(Softmax(temperature=0.0), [True, True, False]), numbers([0, 1, 0], [0, 1, 0]))
    tied = torch.tensor([4.0, -1.0, 4.0], dtype=torch.float64).expand(1, 2, 1, 3)
    near(weights(Softmax(temperature=0.0), scores=tied), numbers([0.5, 0, 0.5], [0.5, 0, 0.5]))
    near(
        weights(Softmax(temperature=0.0, sinks=torch.tensor([4.0, 5.0])), scores=tied),
        numbers([1 / 3, 0, 1 / 3], [0, 0, 0]),
    )


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sinks", [None, torch.tensor([0.3, -0.7])])
def test_a_row_without_keys_is_0_and_a_row_with_nan_is_nan(temperature, sinks):
    normalise = Softmax(temperature=temperature, sinks=sinks)
    assert bool((weights(normalise, [False] * 3) == 0).all())
    broken = SCORES.clone()
    broken[0, 1, 0, 2] = math.nan
    assert weights(normalise, scores=broken).isnan().all(dim=-1).tolist() == [[[False], [True]]]
    # a mask that keeps the NaN away keeps the row
    assert not bool(weights(normalise, [True, True, False], broken).isnan().any())


def test_scores_whose_exponential_overflows_have_weights():
    large = torch.tensor([9e4, -9e4, 9e4], dtype=torch.float64).expand(1, 2, 1, 3)
    near(weights(Softmax(), scores=large), numbers([0.5, 0, 0.5], [0.5, 0, 0.5]))


def test_a_tile_of_a_head_has_the_sink_of_this_head():
    normalise = Softmax(sinks=torch.tensor([0.3, -0.7], dtype=torch.float64))
    second = normalise(SCORES[:, 1:], None, GRID.whole().part(heads=range(1, 2)))
    near(second, weights(normalise)[:, 1:])


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("temperature", [-0.5, math.inf, -math.inf, math.nan, "hot"])
def test_a_temperature_out_of_range_is_refused(temperature):
    assert refusal(ValueError, lambda: Softmax(temperature=temperature)) == (
        f"temperature={temperature!r} divides the scores, so it must be 0 (all weight on the largest) or above."
    )


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("shape", [(3,), (1,), (2, 1), ()])
def test_sinks_that_do_not_fit_are_refused(shape):
    assert refusal(ValueError, lambda: Softmax(sinks=torch.zeros(shape)).check(GRID)) == (
        f"sinks of shape {list(shape)} with 2 heads; give one number for each head."
    )


@pytest.mark.usefixtures("without_type_checks")
def test_sinks_that_are_no_tensor_are_refused():
    assert refusal(TypeError, lambda: Softmax(sinks=1.0)) == (
        "sinks is a float; it takes a tensor of one number for each head, or None."
    )


def test_a_temperature_that_makes_scores_infinite_is_refused():
    assert float((torch.ones(1) / torch.finfo(torch.float32).tiny).sum()) < math.inf
    Softmax(temperature=torch.finfo(torch.float32).tiny)
    assert refusal(ValueError, lambda: Softmax(temperature=1e-42)) == (
        "temperature=1e-42 is so small that scores divided by it are infinite in float32; take 0 for all weight on the "
        "largest."
    )


@pytest.mark.parametrize("number", [np.float32(0.5), np.array(0.5), torch.tensor(0.5)], ids=repr)
def test_a_temperature_may_be_a_number_of_any_type(normal, without_type_checks, number):
    query, key = normal(1, 2, 17, 5), normal(1, 2, 19, 5)
    for of in (lambda n: Softmax(temperature=n), Entmax, lambda n: Hard(Sampled(7, n))):
        number = number + 1 if of is Entmax else number
        seen, expected = (attend(query, key, key, normalise=of(n)) for n in (number, float(number)))
        assert torch.equal(seen.context, expected.context)
        assert repr(seen.pattern) == repr(expected.pattern)


def test_constants_that_are_to_be_learned_are_refused(without_type_checks):
    learned = torch.nn.Parameter(torch.tensor(1.5))
    assert refusal(TypeError, lambda: Softmax(temperature=learned)) == (
        "temperature is a tensor that requires gradients, but Softmax has a constant temperature; "
        "give float(temperature), or attend(query / temperature, …), which can be learned."
    )
    assert refusal(TypeError, Entmax, learned) == (
        "alpha is a tensor that requires gradients, but Entmax has a constant alpha; give float(alpha)."
    )
    assert refusal(TypeError, Sampled, 7, learned) == (
        "temperature is a tensor that requires gradients, but Sampled has a constant temperature; "
        "give float(temperature)."
    )


def test_a_temperature_for_each_head_is_refused(without_type_checks):
    assert refusal(TypeError, lambda: Softmax(temperature=torch.ones(3))) == (
        "temperature has shape [3]; Softmax takes one number."
    )
