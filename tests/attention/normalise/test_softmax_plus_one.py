"""Softmax plus one: against its formula, Softmax with sinks, and torch's attention with a key of zeros; by hand."""

import math

import torch
import torch.nn.functional as F
from oracle import near, row

from regard import Softmax, SoftmaxPlusOne, attend
from regard.attention.grid.grid import Grid

WHOLE = Grid(1, 2, 3, 7).whole()


def test_by_hand():
    near(SoftmaxPlusOne()(row(0.0, math.log(2), -math.inf), None, WHOLE), row(1 / 4, 2 / 4, 0.0))
    near(SoftmaxPlusOne()(row(-math.log(9)), None, WHOLE), row(1 / 10))


def test_weights_are_the_formula_and_softmax_with_sinks_of_0(normal):
    scores = normal(1, 2, 3, 7, dtype=torch.float64)
    found = SoftmaxPlusOne()(scores, None, WHOLE)
    near(found, scores.exp() / (1 + scores.exp().sum(-1, keepdim=True)))
    near(found, Softmax(sinks=torch.zeros(2, dtype=torch.float64))(scores, None, WHOLE))


def test_the_context_is_torchs_with_a_key_and_a_value_of_zeros(normal):
    query, key, value = normal(2, 3, 5, 11), normal(2, 3, 7, 11), normal(2, 3, 7, 13)
    expected = F.scaled_dot_product_attention(query, F.pad(key, (0, 0, 0, 1)), F.pad(value, (0, 0, 0, 1)))
    torch.testing.assert_close(attend(query, key, value, normalise=SoftmaxPlusOne()).context, expected)


def test_scores_whose_exponential_overflows_have_weights():
    near(SoftmaxPlusOne()(row(9e4, -9e4, 9e4), None, WHOLE), row(0.5, 0.0, 0.5))
    near(SoftmaxPlusOne()(row(-9e4, -9e4), None, WHOLE), row(0.0, 0.0))
