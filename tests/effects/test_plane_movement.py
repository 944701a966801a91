"""Tests of the arrows of a layer in the plane against `movement`, which adds the same vectors for one token."""

import math

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.effects.plane import Plane
from regard.effects.plane_movement import angle_between, layer_arrows, nearest_tokens

TEXT = "The snake is very dangerous because it has a venom."


CLOSE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(scope="module")
def traced(minilm):
    """A trace with hidden vectors, and the plane of its vectors."""
    trace = regard.trace(minilm.model, TEXT, tokenizer=minilm.tokenizer, keep=("hidden",))
    return trace, Plane.through(torch.cat([state.after for state in trace.states["encoder"].values()]))


@pytest.fixture(params=[(0, 0), (0, 7), (3, 0), (3, 7)], ids=str)
def step(request, traced):
    """Return the layer, the token, the arrows of the layer, the movement of the token, and the plane."""
    (layer, token), (trace, plane) = request.param, traced
    arrows = layer_arrows(trace.encoder[layer], trace.states["encoder"][layer], plane, n_longest=4)
    return layer, token, arrows, trace.movement(token), plane


def test_arrows_of_heads_and_sources_are_the_longest_vectors_of_movement_and_the_sum_of_the_rest(step):
    layer, token, arrows, movement, plane = step
    change = movement.after[layer] - movement.before[layer]
    for group, vectors in ((arrows.heads, movement.by_head[layer]), (arrows.sources, movement.by_source[layer])):
        longest = vectors.norm(dim=-1).argsort(descending=True)[:4]
        assert group.indices[token].tolist() == [*longest.tolist(), -1]
        expected = torch.cat([vectors[longest], (vectors.sum(dim=0) - vectors[longest].sum(dim=0))[None]])
        assert_close(group.places[token, :, :2], plane.coordinates(expected), **CLOSE)
        assert_close(group.places[token, :, 2], expected.norm(dim=-1), **CLOSE)
        cosines = torch.nn.functional.cosine_similarity(expected, change[None])
        assert_close(group.angles[token], cosines.acos().rad2deg(), atol=0.02, rtol=1e-4)


def test_arrows_of_the_parts_add_up_to_the_movement_from_before_to_after(step):
    layer, token, arrows, movement, plane = step
    attention, bias, feed_forward, rest = arrows.parts.places[token, :, :2]
    assert_close(bias, plane.coordinates(movement.attention[layer] - movement.by_head[layer].sum(dim=0)), **CLOSE)
    assert_close(arrows.heads.places[token, :, :2].sum(dim=0) + bias, attention, **CLOSE)
    assert_close(arrows.before[token, :2] + attention + feed_forward + rest, arrows.after[token, :2], **CLOSE)


def test_angles_by_hand():
    a = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    b = torch.tensor([[0.0, 2.0], [-3.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    assert_close(angle_between(a, b), torch.tensor([90.0, 180.0, 45.0, 0.0]))


def test_the_nearest_tokens_have_the_smallest_angles():
    angles = [0, 10, 40, 90, 180, 200, 300]
    vectors = torch.tensor([[3 * math.cos(math.radians(a)), 3 * math.sin(math.radians(a))] for a in angles])
    tokens, found = nearest_tokens(vectors)
    assert tokens[0].tolist() == [1, 2, 6, 3, 5]
    assert_close(found[0], torch.tensor([10.0, 40.0, 60.0, 90.0, 160.0]), atol=1e-3, rtol=0)
    alone, _ = nearest_tokens(torch.ones(1, 5))
    assert alone.shape == (1, 0)
