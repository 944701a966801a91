"""Tests of location scores: a linear layer over the query alone, by hand; too many keys are refused."""

import torch
from refusals import refusal
from torch import nn
from torch.testing import assert_close

from regard import Causal, Location, attend


def test_scores_are_a_linear_layer_over_the_query(normal):
    query, key, value = normal(2, 6, 5, 11), normal(2, 3, 7, 13), normal(2, 3, 7, 2)
    score, layer = Location(d_query=11, max_keys=7), nn.Linear(11, 7, bias=False)
    layer.load_state_dict(score.state_dict())
    seen = attend(query, key, value, score=score)
    assert_close(seen.pattern.scores(), layer(query))
    assert_close(seen.context, layer(query).softmax(dim=-1) @ value.repeat_interleave(2, 1))


def test_by_hand():
    score = Location(d_query=2, max_keys=3)
    with torch.no_grad():
        score.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]))
    query, key = torch.tensor([[[[3.0, 4.0]]]]), torch.zeros(1, 1, 2, 1)
    assert attend(query, key, key, score=score).pattern.scores(0, 0, 0).tolist() == [3.0, 4.0]


def test_the_vectors_of_the_keys_do_not_matter(normal):
    query, value, score = normal(1, 2, 5, 11), normal(1, 2, 7, 3), Location(d_query=11, max_keys=7)
    here = attend(query, normal(1, 2, 7, 11), value, score=score, mask=Causal())
    there = attend(query, normal(1, 2, 7, 2), value, score=score, mask=Causal())
    assert torch.equal(here.context, there.context)
    assert torch.equal(here.pattern.dense(), there.pattern.dense())


def test_positions_without_a_key_get_no_gradient(normal):
    query, key, score = normal(1, 2, 5, 11), normal(1, 2, 7, 3), Location(d_query=11, max_keys=13)
    attend(query, key, key, score=score).context.square().sum().backward()
    assert score.weight.grad[:7].any(dim=1).all()
    assert not score.weight.grad[7:].any()


def test_more_keys_than_places_are_refused(normal):
    query, key = normal(1, 1, 3, 5), normal(1, 1, 7, 5)
    assert refusal(ValueError, lambda: attend(query, key, key, score=Location(d_query=5, max_keys=6))) == (
        "there are 7 keys and this Location has scores for 6 positions; build it with max_keys=7 or more, or "
        "give fewer keys."
    )


def test_queries_of_another_width_are_refused(normal):
    query, key = normal(1, 1, 3, 11), normal(1, 1, 7, 5)
    assert refusal(ValueError, lambda: attend(query, key, key, score=Location(d_query=5, max_keys=7))) == (
        "query has width 11; this Location was built for queries of width 5, and its parameters fit no others."
    )
