"""The steps of one query: the exponentials and their sum against torch's softmax."""

from dataclasses import replace

import numpy as np
import torch

from regard.by_hand.inputs_file import built_in_inputs
from regard.by_hand.query_steps import query_steps
from regard.by_hand.work_out import work_out
from regard.views.terminal.query_steps import lines


def test_exponentials_and_their_sum_are_those_of_the_softmax():
    steps = query_steps(work_out(built_in_inputs("self-attention"), 1))
    scores = torch.tensor([4.0, 16.0, 12.0]).double() / 3**0.5
    np.testing.assert_allclose(steps.before["scores"], scores.numpy())
    assert list(steps.before) == ["products", "scores"]
    np.testing.assert_allclose(steps.largest, float(scores.max()))
    np.testing.assert_allclose(steps.exponentials, (scores - scores.max()).exp().numpy())
    np.testing.assert_allclose(steps.total, float((scores - scores.max()).exp().sum()))
    np.testing.assert_allclose(steps.weights, torch.softmax(scores, dim=0).numpy())
    assert steps.sink_exponential is None


def test_the_largest_score_is_subtracted_with_its_sign():
    numbers = built_in_inputs("self-attention")
    for scale, exponent, largest in ((1.0, "exp(scores - 16.00)", "16.00"), (-1.0, "exp(scores + 4.00)", "-4.00")):
        shown = [line.plain for line in lines(work_out(replace(numbers, scale=scale), 1), 80, 2)]
        assert f"  exp = {exponent}" in shown
        assert f"  {largest} is the largest of scores; to subtract it changes no weight." in shown


def test_a_mask_a_temperature_and_a_sink_take_part():
    numbers = replace(built_in_inputs("self-attention"), mask="causal", temperature=0.5, sinks=(9.0,))
    steps = query_steps(work_out(numbers, 1))
    assert list(steps.before) == ["products", "scores", "masked", "tempered"]
    row = torch.tensor([4.0, 16.0]).double() / 3**0.5
    wanted = torch.softmax(torch.cat([row, torch.tensor([9.0]).double()]) / 0.5, dim=0)
    np.testing.assert_allclose(steps.weights, [*wanted[:2].tolist(), 0.0])
    np.testing.assert_allclose(steps.exponentials / steps.total, steps.weights)
    np.testing.assert_allclose(steps.sink_exponential / steps.total, float(wanted[2]))


def test_a_query_that_may_look_nowhere_has_weights_0():
    numbers = replace(built_in_inputs("self-attention"), mask=np.tri(3, 3, -1, dtype=bool))
    steps = query_steps(work_out(numbers, 0))
    assert (steps.total, steps.exponentials.tolist(), steps.weights.tolist()) == (0.0, [0.0] * 3, [0.0] * 3)
