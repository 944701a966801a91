"""Tests of additive scores: against a loop, by hand, and that the hidden layer is never in memory as a whole."""

import math

import pytest
import torch
from oracle import Largest, Saved, near
from torch import nn
from torch.testing import assert_close

import regard.attention.scores.tiling as tiling
from regard import Additive, Causal, Concat, attend
from regard.attention.scores.prepared import Prepared


def as_loop(query, key, first, second, vector):
    """Return the scores of one head, v · tanh(W query + U key), computed on lists of numbers."""
    scores = []
    for q in query:
        row = []
        for k in key:
            total = 0.0
            for v, w, u in zip(vector, first, second, strict=True):
                inner = sum(a * b for a, b in zip(w, q, strict=True)) + sum(a * b for a, b in zip(u, k, strict=True))
                total += v * math.tanh(inner)
            row.append(total)
        scores.append(row)
    return torch.tensor(scores, dtype=torch.float64)


@pytest.mark.parametrize("kind", [Additive, Concat])
def test_scores_equal_a_loop(normal, kind):
    query, key = normal(1, 4, 3, 5).double(), normal(1, 2, 7, 11).double()
    score = kind(d_query=5, d_key=11, d_hidden=13).double()
    found = attend(query, key, key, score=score).pattern.scores()
    if kind is Additive:
        first, second = score.query_weight, score.key_weight
    else:
        first, second = score.weight[:, :5], score.weight[:, 5:]
    for h in range(4):
        rows = query[0, h].tolist(), key[0, h // 2].tolist()
        near(found[0, h], as_loop(*rows, first.tolist(), second.tolist(), score.vector.tolist()))


def test_concat_is_a_network_over_the_concatenation_of_query_and_key(normal):
    query, key = normal(3, 5), normal(7, 11)
    score = Concat(d_query=5, d_key=11, d_hidden=13)
    joined = torch.cat([query[:, None].expand(3, 7, 5), key[None].expand(3, 7, 11)], dim=-1)
    expected = torch.tanh(nn.functional.linear(joined, score.weight)) @ score.vector
    found = attend(query[None, None], key[None, None], key[None, None], score=score).pattern.scores(0, 0)
    assert_close(found, expected)


def test_by_hand():
    score = Additive(d_query=1, d_key=2, d_hidden=2)
    with torch.no_grad():
        score.query_weight.copy_(torch.tensor([[1.0], [0.0]]))
        score.key_weight.copy_(torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
        score.vector.copy_(torch.tensor([3.0, -1.0]))
    query, key = torch.tensor([[[[2.0]]]]), torch.tensor([[[[0.0, -2.0], [1.0, 1.0]]]])
    # hidden layers tanh(2 - 2, 0) = (0, 0) and tanh(2 + 1, 2) = (0.99505475, 0.96402758)
    scores = attend(query, key, key, score=score).pattern.scores(0, 0, 0)
    assert_close(scores, torch.tensor([0.0, 3 * 0.99505475 - 0.96402758]))


@pytest.mark.parametrize("numbers", [1, 13, 700, 2**14])
def test_the_size_of_a_tile_does_not_matter(normal, monkeypatch, numbers):
    query, key = normal(2, 2, 5, 7).requires_grad_(), normal(2, 2, 11, 3).requires_grad_()
    score = Additive(d_query=7, d_key=3, d_hidden=13)

    def read():
        context = attend(query, key, key, score=score, mask=Causal()).context
        return context, *torch.autograd.grad(context.square().sum(), [query, key, *score.parameters()])

    expected = read()
    monkeypatch.setattr(tiling, "TILE_NUMBERS", numbers)
    assert_close(read(), expected)


@pytest.mark.parametrize("kind", [Additive, Concat])
def test_the_hidden_layer_is_never_in_memory_as_a_whole(normal, kind):
    query, key = normal(1, 2, 131, 5).requires_grad_(), normal(1, 2, 149, 7).requires_grad_()
    score = kind(d_query=5, d_key=7, d_hidden=257)
    whole = 2 * 131 * 149 * 257
    with Largest() as forward:
        seen = attend(query, key, key, score=score)
    with Largest() as backward:
        seen.context.sum().backward()
    with Largest() as look:
        seen.pattern[0, 1, 17]
    for numbers in (forward.numbers, backward.numbers, look.numbers):
        assert numbers <= tiling.TILE_NUMBERS < whole / 30


def test_the_hidden_layer_is_not_stored_for_the_backward_pass(normal):
    query, key = normal(1, 2, 131, 5).requires_grad_(), normal(1, 2, 149, 7).requires_grad_()
    score = Additive(d_query=5, d_key=7, d_hidden=257)
    with Saved() as saved:
        scores = attend(query, key, key, score=score).pattern.scores()
    assert scores.requires_grad
    assert saved.bytes < 4 * 2 * 131 * 149 * 257 / 30


def test_a_decoding_step_computes_its_hidden_layer_in_one_tile_and_does_not_store_it(normal, monkeypatch):
    steps, memory = normal(1, 2, 37, 5).requires_grad_(), normal(1, 2, 149, 7).requires_grad_()
    score = Additive(d_query=5, d_key=7, d_hidden=257)
    key = score.prepare(memory)

    def read(step):
        return attend(step, key, memory, score=Prepared(score)).context

    with Saved() as saved, Largest() as forward:
        contexts = torch.cat([read(step) for step in steps.split(1, dim=2)], dim=2)
    with Largest() as backward:
        contexts.square().sum().backward()
    assert forward.numbers == backward.numbers == key.numel() == 2 * 149 * 257
    assert saved.bytes < 4 * 2 * key.numel()  # the keys themselves, and not the hidden layers of 37 steps
    assert_close(contexts, attend(steps, memory, memory, score=score).context)


def test_parameters_have_the_papers_names_and_small_first_numbers():
    sizes = {"vector": [13], "query_weight": [13, 5], "key_weight": [13, 11]}
    assert {name: list(p.shape) for name, p in Additive(5, 11, 13).state_dict().items()} == sizes
    sizes = {"vector": [13], "weight": [13, 16]}
    assert {name: list(p.shape) for name, p in Concat(5, 11, 13).state_dict().items()} == sizes
    for score in (Additive(5, 11, 13), Concat(5, 11, 13)):
        assert 0 < float(score.vector.detach().abs().max()) <= 1 / math.sqrt(13)
        assert all(p.any() for p in score.parameters())
