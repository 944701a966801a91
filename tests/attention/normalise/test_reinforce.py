"""Tests of REINFORCE: its mean gradient is the exact gradient of the expected reward; log-probabilities of draws."""

import math

import pytest
import torch
from oracle import near
from refusals import CHANGED_TENSOR, refusal

import regard.attention.weights as room
from regard import Ask, GumbelSoftmax, Hard, Padding, Sampled, Softmax, attend, log_weights_of_choice, reinforce

REWARDS = torch.tensor([2.0, -1.0, 5.0], dtype=torch.float64)
SCORES = [0.3, -0.5, 0.1]


def exact():
    """Return the gradient of Σ p · reward with respect to the scores, by hand: p_j (reward_j - Σ p · reward)."""
    p = [math.exp(score) / sum(map(math.exp, SCORES)) for score in SCORES]
    mean = sum(a * b for a, b in zip(p, REWARDS.tolist(), strict=True))
    return torch.tensor([a * (b - mean) for a, b in zip(p, REWARDS.tolist(), strict=True)], dtype=torch.float64)


@pytest.mark.parametrize("baseline", [0.0, 1.7])
def test_the_average_over_all_draws_is_the_exact_gradient(baseline):
    scores = torch.tensor(SCORES, dtype=torch.float64, requires_grad=True)
    probabilities = scores.detach().softmax(-1)
    average = torch.zeros(3, dtype=torch.float64)
    for key in range(3):
        log_weights = scores.log_softmax(-1)[key].reshape(1, 1, 1)
        loss = reinforce(log_weights, REWARDS[key].reshape(1, 1, 1), baseline)
        average += probabilities[key] * torch.autograd.grad(loss, scores)[0]
    near(average, -exact())


def test_the_average_over_draws_of_attend_is_the_exact_gradient():
    """Each of 20,011 batch items draws one key; five standard errors of each of the three numbers."""
    n = 20011
    key = torch.tensor(SCORES, dtype=torch.float64).reshape(1, 1, 3, 1).expand(n, 1, 3, 1).clone().requires_grad_()
    query, value = torch.ones(n, 1, 1, 1, dtype=torch.float64), REWARDS.reshape(1, 1, 3, 1)
    seen = attend(query, key, value, normalise=Hard(Sampled(seed=11)))
    loss = reinforce(log_weights_of_choice(seen.pattern), seen.context[..., 0], baseline=2.0)
    each = torch.autograd.grad(loss, key)[0][:, 0, :, 0] * n
    error = (each.mean(0) + exact()).abs() / (each.std(0) / math.sqrt(n))
    assert bool((error < 5).all()), error


def test_a_baseline_near_the_mean_lowers_the_variance():
    log_weights = torch.tensor(SCORES, dtype=torch.float64).log_softmax(-1)
    p = log_weights.exp()

    def variance(baseline):
        gradients = torch.stack([(torch.eye(3)[k] - p) * (REWARDS[k] - baseline) for k in range(3)])
        return float((p[:, None] * (gradients + -exact()) ** 2).sum())

    scores = torch.tensor(SCORES, dtype=torch.float64, requires_grad=True)
    found = torch.autograd.grad(
        reinforce(scores.log_softmax(-1)[2].reshape(1, 1, 1), REWARDS[2:, None, None], 2.0), scores
    )
    near(found[0], -(torch.eye(3, dtype=torch.float64)[2] - p) * 3.0)
    assert variance(2.0) < variance(0.0)


def test_items_are_averaged_and_their_draws_added(normal):
    log_weights, reward = normal(2, 3, 5, dtype=torch.float64), normal(2, 1, 1, dtype=torch.float64)
    expected = -sum(float(reward[b, 0, 0] - 0.5) * float(log_weights[b].sum()) for b in range(2)) / 2
    near(reinforce(log_weights, reward, 0.5), torch.tensor(expected, dtype=torch.float64))


def test_the_reward_gets_no_gradient(normal):
    log_weights, reward = normal(2, 3, 5).requires_grad_(), normal(2, 1, 1).requires_grad_()
    assert torch.autograd.grad(reinforce(log_weights, reward), reward, allow_unused=True) == (None,)


@pytest.mark.parametrize("block", [1, 50, 2**22])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_log_weights_of_choice_are_the_log_softmax_of_the_drawn_keys(normal, monkeypatch, temperature, block):
    query, key, value = (normal(2, 3, n, 11, dtype=torch.float64).requires_grad_() for n in (5, 7, 7))
    seen = attend(query, key, value, mask=Padding(torch.tensor([4, 0])), normalise=Hard(Sampled(7, temperature)))
    monkeypatch.setattr(room, "BLOCK_WEIGHTS", block)
    found = log_weights_of_choice(seen.pattern)
    scores = (query @ key.mT)[:1, ..., :4] / math.sqrt(11) / temperature
    drawn = seen.pattern.dense()[:1, ..., :4].argmax(-1, keepdim=True)
    expected = scores.log_softmax(-1).gather(-1, drawn)[..., 0]
    near(found[:1], expected)
    assert not bool(found[1].any())  # it sees no key
    for ours, theirs in zip(*(torch.autograd.grad(x.sum(), (query, key)) for x in (found, expected)), strict=True):
        near(ours, theirs)
    with torch.no_grad():
        near(log_weights_of_choice(seen.pattern), found)


@pytest.mark.parametrize("ask", [None, Ask(top=1)], ids=["computed", "known already"])
def test_a_pattern_whose_tensors_have_changed_is_refused(normal, ask):
    query = normal(2, 3, 5, 11)
    pattern = attend(query, query, query, normalise=Hard(Sampled(seed=7)), ask=ask).pattern
    query.mul_(2)
    assert refusal(ValueError, lambda: log_weights_of_choice(pattern)) == CHANGED_TENSOR


def test_no_queries_have_no_draws(normal):
    seen = attend(normal(2, 3, 0, 11), normal(2, 3, 7, 11), normal(2, 3, 7, 11), normalise=Hard(Sampled(seed=7)))
    assert log_weights_of_choice(seen.pattern).shape == (2, 3, 0)


@pytest.mark.parametrize("normalise", [Softmax(), Hard(), GumbelSoftmax(seed=7)])
def test_a_pattern_that_was_not_drawn_is_refused(normal, normalise):
    x = normal(2, 3, 5, 11)
    assert refusal(TypeError, lambda: log_weights_of_choice(attend(x, x, x, normalise=normalise).pattern)) == (
        f"the pattern was computed with {normalise!r}, which draws no keys at random; "
        "give attend normalise=Hard(Sampled(seed=…))."
    )
