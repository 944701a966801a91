"""Tests of location-aware scores: against a loop over the paper's equations, by hand, and over successive steps."""

import math

import pytest
import torch
from oracle import near
from refusals import refusal
from torch.testing import assert_close

import regard.attention.scores.location_aware as location_aware
from regard import LocationAware, Padding, attend
from regard.attention.scores.prepared import Prepared


def loud(score: LocationAware) -> LocationAware:
    """Return the score in float64 with random parameters so large that each has an effect."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in score.double().parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return score


def as_loop(score, query, key, previous):
    """Compute e_ij = w · tanh(W s_{i-1} + V h_j + U f_ij + b) with f_i = F ∗ α_{i-1} on lists of numbers."""
    w, b = score.vector.tolist(), score.bias.tolist()
    matrices = (score.query_weight, score.key_weight, score.place_weight)
    to_query, to_key, to_place = (matrix.tolist() for matrix in matrices)
    filters, half = score.filters.tolist(), score.filters.shape[1] // 2
    scores = []
    for s, alpha in zip(query, previous, strict=True):
        row = []
        for j, h in enumerate(key):
            around = [alpha[j + k] if 0 <= j + k < len(key) else 0.0 for k in range(-half, half + 1)]
            f = [sum(x * y for x, y in zip(line, around, strict=True)) for line in filters]
            total = 0.0
            for n in range(len(w)):
                inner = b[n]
                for matrix, vector in ((to_query, s), (to_key, h), (to_place, f)):
                    inner += sum(x * y for x, y in zip(matrix[n], vector, strict=True))
                total += w[n] * math.tanh(inner)
            row.append(total)
        scores.append(row)
    return torch.tensor(scores, dtype=torch.float64)


@pytest.mark.parametrize("width", [1, 3, 19])
def test_scores_equal_a_loop(normal, width):
    query, key = normal(2, 4, 3, 5).double(), normal(2, 2, 7, 11).double()
    previous = normal(2, 4, 3, 7).double().softmax(dim=-1)
    score = loud(LocationAware(d_query=5, d_key=11, d_hidden=13, n_filters=2, width=width))
    found = attend(query, key, key, score=score.after(previous)).pattern.scores()
    for b in range(2):
        for h in range(4):
            rows = query[b, h].tolist(), key[b, h // 2].tolist(), previous[b, h].tolist()
            near(found[b, h], as_loop(score, *rows))


def test_a_first_step_has_previous_weights_of_0(normal):
    query, key = normal(1, 2, 3, 5).double(), normal(1, 2, 7, 11).double()
    score = loud(LocationAware(d_query=5, d_key=11, d_hidden=13))
    found = attend(query, key, key, score=score).pattern.scores()
    for h in range(2):
        near(found[0, h], as_loop(score, query[0, h].tolist(), key[0, h].tolist(), [[0.0] * 7] * 3))


def test_by_hand():
    """Of three places the filter finds what lies one to the left, so weights move one to the right."""
    score = LocationAware(d_query=1, d_key=1, d_hidden=1, n_filters=1, width=3)
    with torch.no_grad():
        for parameter, value in zip(score.parameters(), (2.0, 0.0, 0.0, 3.0, 0.0, 0.25), strict=True):
            parameter.fill_(value)
        score.filters[0, 0] = 1.0
    x = torch.zeros(1, 1, 1, 1)
    key = torch.zeros(1, 1, 3, 1)
    scores = attend(x, key, key, score=score.after(torch.tensor([[[[0.5, 0.25, 0.25]]]]))).pattern.scores(0, 0, 0)
    # 2 tanh(3 · left + 0.25) for left = 0, 0.5, 0.25
    assert_close(scores, torch.tensor([2 * 0.24491866, 2 * 0.94137554, 2 * 0.76159416]))


def test_all_steps_in_one_call_have_the_weights_of_the_single_steps(normal):
    """Each step looks after the one before it; the queries together, each after its own, have the same weights."""
    query, memory = normal(2, 1, 5, 3), normal(2, 1, 7, 11)
    score, mask = loud(LocationAware(d_query=3, d_key=11, d_hidden=13)).float(), Padding(torch.tensor([7, 4]))
    weights, contexts, before = torch.zeros(2, 1, 1, 7), [], []
    for one in query.split(1, dim=2):
        before.append(weights)
        step = attend(one, memory, memory, score=score.after(weights), mask=mask)
        weights = step.pattern.dense()
        contexts.append(step.context)
    whole = attend(query, memory, memory, score=score.after(torch.cat(before, dim=2)), mask=mask)
    assert_close(whole.context, torch.cat(contexts, dim=2))
    assert_close(whole.pattern[:, :, 4], weights[:, :, 0])
    assert_close(whole.pattern[1, :, 1:4, 2:5], whole.pattern.dense()[1, :, 1:4, 2:5])
    assert_close(whole.pattern.scores(1, 0, 3, slice(2, 5)), whole.pattern.scores()[1, 0, 3, 2:5])


def test_a_key_masked_at_the_end_is_as_good_as_absent(normal):
    query, memory = normal(2, 1, 5, 3), normal(2, 1, 7, 11)
    score, after = LocationAware(d_query=3, d_key=11, d_hidden=13), normal(2, 1, 5, 4).softmax(dim=-1)
    wider = torch.nn.functional.pad(after, (0, 3))
    masked = attend(query, memory, memory, score=score.after(wider), mask=Padding(torch.tensor([4, 4])))
    absent = attend(query, memory[:, :, :4], memory[:, :, :4], score=score.after(after))
    assert_close(masked.context, absent.context)


def test_gradients_pass_through_the_weights_of_the_previous_step(normal):
    query, memory = normal(2, 1, 2, 3).double(), normal(1, 1, 5, 2).double()
    score = loud(LocationAware(d_query=3, d_key=2, d_hidden=4, n_filters=2, width=3))
    given = [query.requires_grad_(), memory.requires_grad_(), *score.parameters()]

    def two_steps(query, memory, *_):
        first = attend(query[:, :, :1], memory, memory, score=score)
        then = score.after(first.pattern.dense())
        return attend(query[:, :, 1:], memory, memory, score=then).context

    assert torch.autograd.gradcheck(two_steps, given)


@pytest.mark.parametrize("numbers", [1, 700])
def test_the_size_of_a_tile_does_not_matter(normal, monkeypatch, numbers):
    query, key, after = normal(2, 2, 5, 7).requires_grad_(), normal(2, 2, 11, 3), normal(2, 2, 5, 11).softmax(-1)
    score = LocationAware(d_query=7, d_key=3, d_hidden=13)

    def read():
        context = attend(query, key, key, score=score.after(after)).context
        return context, *torch.autograd.grad(context.square().sum(), [query, *score.parameters()])

    expected = read()
    monkeypatch.setattr(location_aware, "TILE_NUMBERS", numbers)
    assert_close(read(), expected)


def test_one_row_of_previous_weights_is_broadcast(normal):
    query, key, row = normal(2, 3, 5, 7), normal(2, 3, 11, 3), normal(1, 1, 1, 11).softmax(-1)
    score = LocationAware(d_query=7, d_key=3, d_hidden=13)
    one, many = (attend(query, key, key, score=score.after(w)) for w in (row, row.expand(2, 3, 5, 11)))
    assert_close(one.context, many.context)


@pytest.mark.parametrize("step", ["first", "later"])
def test_prepared_keys_give_the_same_contexts(normal, step):
    query, memory = normal(2, 1, 5, 3), normal(2, 1, 7, 11)
    network = LocationAware(d_query=3, d_key=11, d_hidden=13)
    score = network if step == "first" else network.after(normal(2, 1, 5, 7).softmax(dim=-1))
    key = network.prepare(memory)
    assert key.shape == (2, 1, 7, 13)
    once = attend(query, key, memory, score=Prepared(score))
    assert_close(once.context, attend(query, memory, memory, score=score).context)


SIZES = {"d_query": 3, "d_key": 11, "d_hidden": 13}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda score, x, key: LocationAware(**SIZES, width=4),
            "width=4 is even, so a filter has no middle key; take 3 or 5.",
        ),
        (lambda score, x, key: LocationAware(**SIZES, n_filters=0), "n_filters=0 is too small; it must be at least 1."),
        *(
            (
                lambda score, x, key, n=n: attend(x, key, key, score=score.after(torch.zeros(2, 1, 5, n))),
                f"the previous weights have shape [2, 1, 5, {n}] for batch=2, heads=1, queries=5, keys=7; give the "
                "weights of the previous step, [2, 1, 5, 7]; every axis but the last may have size 1.",
            )
            for n in (6, 1)
        ),
        (
            lambda score, x, key: attend(key, x, x, score=score),
            "query has width 11 and key has width 3; this LocationAware was built for queries of width 3 and keys of "
            "width 11, and its parameters fit no others.",
        ),
        (
            lambda score, x, key: attend(x, key, key, score=Prepared(score)),
            "query has width 3 and key has width 11; this Prepared was built for queries of width 3 and keys of "
            "width 13, and its parameters fit no others.",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(normal, call, message):
    assert refusal(ValueError, lambda: call(LocationAware(**SIZES), normal(2, 1, 5, 3), normal(2, 1, 7, 11))) == message
