"""The rollout of a token against the product of whole matrices in float64."""

import torch
from torch.testing import assert_close

from regard import Causal, Softmax, attend
from regard.effects.contributions import OutputProjection
from regard.effects.movement import LayerStates
from regard.effects.rollout import HeadMean, VectorLengths, rollout


def test_a_rollout_is_a_row_of_the_product_of_the_flows(normal):
    """With sinks, and for a first token that attends to no key, the weights of a query sum to less than 1."""
    layers = [
        attend(
            *[normal(1, 3, 7, 5) for _ in range(3)], mask=Causal(own=False), normalise=Softmax(sinks=normal(3))
        ).pattern
        for _ in range(2)
    ]
    flows = [pattern.dense()[0].double().mean(dim=0) + torch.eye(7) for pattern in layers]
    first, second = (flow / flow.sum(dim=-1, keepdim=True) for flow in flows)
    for token in range(7):
        found = rollout(layers, [None, None], token, HeadMean())
        assert_close(found.double(), (second @ first)[token], rtol=1e-5, atol=1e-6)
        assert_close(float(found.sum()), 1.0)


def test_a_flow_by_lengths_is_that_of_the_added_vectors(normal):
    """Each token's vector is written out: the sum over heads of weight · value · W_O, and the token's own vector."""
    query, key, value = normal(1, 4, 7, 5), normal(1, 2, 7, 5), normal(1, 2, 7, 3)
    pattern = attend(query, key, value, mask=Causal()).pattern
    before, projection = normal(7, 11), OutputProjection(weight=normal(4, 3, 11), bias=None)
    states = LayerStates(before=before, attention=before, feed_forward=before, after=before, projection=projection)
    weights, shares = pattern.dense()[0], torch.zeros(7, 7)
    for i in range(7):
        for j in range(7):
            added = sum(weights[h, i, j] * value[0, h // 2, j] @ projection.weight[h] for h in range(4))
            shares[i, j] = (added + before[i] * (i == j)).norm()
        found = rollout([pattern], [states], i, VectorLengths())
        assert_close(found, shares[i] / shares[i].sum(), rtol=1e-4, atol=1e-5)
