"""Shaw's relative keys: against transformers' relative_key, a loop over the equation, and laws."""

import math

import pytest
import torch
from oracle import HALF, Largest, eager, near
from refusals import refusal
from torch import nn
from torch.testing import assert_close

import regard.attention.weights as weights_module
from regard import Causal, Padding, Shaw, attend
from regard.attention.grid.grid import Grid

GRID = Grid(2, 3, 5, 7)


def shaw(normal, d_key=11, max_distance=3, **given):
    """Return a `Shaw` score with large random vectors, so that mistakes show."""
    score = Shaw(d_key, max_distance, **given)
    with torch.no_grad():
        score.by_distance.copy_(normal(*score.by_distance.shape))
    return score


def by_hand(score, query, key, first):
    """Return the scores of equation 5, computed one by one in float64."""
    scores, vectors = torch.zeros(*query.shape[:3], key.shape[2], dtype=torch.float64), score.by_distance.detach()
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        clipped = max(-score.max_distance, min(score.max_distance, j - (i + first)))
        moved = key[b, h, j].double() + vectors[clipped + score.max_distance].double()
        scores[b, h, i, j] = float(query[b, h, i].double() @ moved)
    return scores * (1 / math.sqrt(query.shape[-1]) if score.scale is None else score.scale)


# Against something independent


@pytest.mark.parametrize("max_distance", [1, 3, 29])
@pytest.mark.parametrize(("given", "first"), [({}, 2), ({"offset": 0}, 0), ({"offset": -4, "scale": -0.3}, -4)])
def test_scores_are_those_of_the_equation(normal, max_distance, given, first):
    query, key = normal(2, 3, 5, 11, dtype=torch.float64), normal(2, 3, 7, 11, dtype=torch.float64)
    score = shaw(normal, max_distance=max_distance, **given)
    near(score(query, key, GRID.whole()).detach(), by_hand(score, query, key, first))


def test_a_layer_of_transformers_with_relative_keys_is_equal_with_its_parameters_copied(normal):
    from transformers import Wav2Vec2BertConfig
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention

    config = Wav2Vec2BertConfig(
        hidden_size=15,
        num_attention_heads=3,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=2,
        right_max_position_embeddings=2,
        attention_dropout=0.0,
    )
    config._attn_implementation = "eager"
    module, x = Wav2Vec2BertSelfAttention(config).eval(), normal(2, 7, 15)
    score = Shaw(d_key=5, max_distance=2)
    nn.init.normal_(module.distance_embedding.weight)
    score.load_state_dict({"by_distance": module.distance_embedding.weight})
    query, key, value = (
        into(x).view(2, 7, 3, 5).transpose(1, 2) for into in (module.linear_q, module.linear_k, module.linear_v)
    )
    seen = attend(query, key, value, score=score)
    assert seen.backend == "tiled"
    assert_close(module.linear_out(seen.context.transpose(1, 2).flatten(2)), module(x)[0])


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_grouped_masked_attention_is_plain_torchs_on_the_scores_by_hand(normal, dtype):
    query, key, value = normal(2, 6, 5, 11).to(dtype), normal(2, 3, 7, 11).to(dtype), normal(2, 3, 7, 13).to(dtype)
    score = shaw(normal)
    seen = attend(query, key, value, score=score, mask=Causal() & Padding(torch.tensor([3, 7])))
    scores = by_hand(score, query, key.repeat_interleave(2, 1), 2)
    keep = torch.ones(5, 7).bool().tril(2) & (torch.arange(7) < torch.tensor([3, 7])[:, None, None, None])
    weights = scores.masked_fill(~keep, -math.inf).softmax(dim=-1)
    assert_close(seen.pattern.dense().double(), weights, rtol=1e-5, atol=1e-6)  # in float32 whatever the type
    assert seen.context.dtype == dtype
    context = (weights @ value.repeat_interleave(2, 1).double()).to(dtype)
    assert_close(seen.context, context)


# Laws


def test_scores_depend_on_distances_alone(normal):
    x, score = normal(1, 3, 19, 11), shaw(normal)
    whole = attend(x, x, x, score=score).pattern.scores()
    assert_close(attend(x[:, :, 5:], x[:, :, 5:], x[:, :, 5:], score=score).pattern.scores(), whole[:, :, 5:, 5:])


def test_no_vector_for_each_pair_of_query_and_key_is_built(normal, monkeypatch):
    monkeypatch.setattr(weights_module, "BLOCK_WEIGHTS", 13 * 1009)
    query, score = normal(1, 1, 1009, 11).requires_grad_(), shaw(normal)
    with Largest() as largest:
        attend(query, query, query, score=score).context.sum().backward()
    assert largest.numbers <= 13 * 1009


def test_gradients_are_those_of_plain_torch(normal):
    query, key, score = normal(2, 3, 5, 11), normal(2, 3, 7, 11), shaw(normal)
    attend(query, key, key, score=score).context.square().sum().backward()
    found, score.by_distance.grad = score.by_distance.grad, None
    clipped = (torch.arange(7) - torch.arange(5)[:, None] - 2).clamp(-3, 3) + 3
    bias = torch.einsum("bhqd,qkd->bhqk", query, score.by_distance[clipped]) / math.sqrt(11)
    eager(query, key, key, bias=bias)[0].square().sum().backward()
    assert_close(found, score.by_distance.grad)


# What it says


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda x: Shaw(0, 3), "d_key=0 is too small; it must be at least 1."),
        (lambda x: Shaw(11, 0), "max_distance=0 is too small; it must be at least 1."),
        (
            lambda x: attend(x, x, x, score=Shaw(13, 3)),
            "query has width 11 and key has width 11; this Shaw was built for queries of width 13 and keys of width "
            "13, and its parameters fit no others.",
        ),
    ],
)
def test_refusals(normal, refused, message):
    assert refusal(ValueError, lambda: refused(normal(1, 3, 5, 11))) == message
