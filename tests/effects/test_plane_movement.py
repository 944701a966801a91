"""Tests of the arrows of a layer in the plane against `movement`, which adds the same vectors for one token."""

import math

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.effects.plane import Plane
from regard.effects.plane_movement import angle_between, layer_arrows, nearest_tokens

TEXT = "The snake is very dangerous because it has a venom."


@pytest.fixture(scope="module")
def kept(minilm):
    """A trace with hidden vectors, and the plane of its vectors."""
    trace = regard.trace(minilm.model, TEXT, tokenizer=minilm.tokenizer, keep=("hidden",))
    return trace, Plane.through(torch.cat([state.after for state in trace.states["encoder"].values()]))


def test_arrows_are_the_vectors_of_movement_and_lead_from_before_to_after(kept):
    trace, plane = kept
    for layer in (0, 3):
        found = layer_arrows(trace.encoder[layer], trace.states["encoder"][layer], plane, n_longest=4)
        for token in (0, 7):
            wanted = trace.movement(token)
            change = wanted.after[layer] - wanted.before[layer]
            for group, vectors in ((found.heads, wanted.by_head[layer]), (found.sources, wanted.by_source[layer])):
                names = group.indices[token].tolist()
                own = vectors[names[:4]]
                assert names[4] == -1
                assert names[:4] == vectors.norm(dim=-1).argsort(descending=True)[:4].tolist()
                whole = torch.cat([own, (vectors.sum(dim=0) - own.sum(dim=0))[None]])
                assert_close(group.places[token, :, :2], plane.directions(whole), atol=1e-4, rtol=1e-4)
                assert_close(group.places[token, :, 2], whole.norm(dim=-1), atol=1e-4, rtol=1e-4)
                cosines = torch.nn.functional.cosine_similarity(whole, change[None])
                assert_close(group.angles[token], cosines.acos().rad2deg(), atol=0.02, rtol=1e-4)
            parts = found.parts.places[token, :, :2]
            bias = wanted.attention[layer] - wanted.by_head[layer].sum(dim=0)
            assert_close(parts[1], plane.directions(bias), atol=1e-4, rtol=1e-4)
            moved = found.before[token, :2] + parts[0] + parts[2] + parts[3]
            assert_close(moved, found.after[token, :2], atol=1e-4, rtol=1e-4)
            by_head = found.heads.places[token, :, :2].sum(dim=0) + parts[1]
            assert_close(by_head, parts[0], atol=1e-4, rtol=1e-4)


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
