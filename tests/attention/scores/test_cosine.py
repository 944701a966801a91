"""Tests of cosine scores: against torch's cosine, vectors of any norm, zero vectors."""

import math

import pytest
import torch
import torch.nn.functional as F
from refusals import CHANGED_TENSOR, refusal
from torch import nn
from torch.testing import assert_close

from regard import Cosine, attend


def test_scores_are_torchs_cosine(normal):
    query, key = normal(2, 6, 5, 11), normal(2, 3, 7, 11)
    found = attend(query, key, key, score=Cosine(scale=3.0)).pattern.scores()
    keys = key.repeat_interleave(2, 1)
    assert_close(found, 3 * F.cosine_similarity(query[:, :, :, None], keys[:, :, None], dim=-1))


def test_by_hand():
    query, key = torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[0.5, 0.0], [-7.0, 0.0], [0.0, 2.0], [3.0, 3.0]]]])
    scores = attend(query, key, key, score=Cosine(scale=2.0)).pattern.scores(0, 0, 0)
    assert_close(scores, torch.tensor([2.0, -2.0, 0.0, 2 * math.cos(math.pi / 4)]))


@pytest.mark.parametrize("size", [1e-38, 1e-20, 1e-3, 1e20, 1e37])
def test_the_lengths_of_vectors_do_not_matter(normal, size):
    query, key = normal(1, 2, 3, 5), normal(1, 2, 7, 5)
    expected = attend(query, key, key, score=Cosine())
    found = attend(query * size, key * size, key, score=Cosine())
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    assert_close(found.pattern.scores(), expected.pattern.scores(), **tolerance)
    assert_close(found.context, expected.context, **tolerance)
    assert float(found.pattern.scores().abs().max()) <= 10 * (1 + 1e-6)


def test_a_vector_of_zeros_has_score_0_and_finite_gradients(normal):
    query, key = normal(1, 1, 3, 5), normal(1, 1, 7, 5)
    query[:, :, 1], key[:, :, 4] = 0.0, 0.0
    query.requires_grad_()
    key.requires_grad_()
    scale = nn.Parameter(torch.tensor(2.0))
    seen = attend(query, key, key, score=Cosine(scale=scale))
    scores = seen.pattern.scores(0, 0)
    assert not scores[1].any()
    assert not scores[:, 4].any()
    for context in (seen.context, seen.pattern.apply(key)):
        for gradient in torch.autograd.grad(context.square().sum(), [query, key, scale]):
            assert gradient.isfinite().all()
            assert float(gradient.abs().max()) < 100


def test_a_scale_for_each_head(normal):
    query, key = normal(1, 3, 5, 11), normal(1, 3, 7, 11)
    scale = torch.tensor([1.0, 5.0, 20.0])
    seen = attend(query, key, key, score=Cosine(scale=scale))
    for head, number in enumerate([1.0, 5.0, 20.0]):
        one = [x[:, head : head + 1] for x in (query, key, key)]
        alone = attend(*one, score=Cosine(scale=number))
        assert_close(seen.context[:, head : head + 1], alone.context)
        assert_close(seen.pattern[0, head, 2], alone.pattern[0, 0, 2])


def test_a_parameter_is_learned_and_a_number_is_not():
    learned, fixed = Cosine(scale=nn.Parameter(torch.tensor(3.0))), Cosine(scale=torch.tensor(3.0))
    assert [name for name, _ in learned.named_parameters()] == ["scale"]
    assert list(fixed.parameters()) == []
    assert list(Cosine(scale=3.0).state_dict()) == []
    assert fixed.state_dict() == {"scale": torch.tensor(3.0)}
    assert fixed.double().scale.dtype == torch.float64


def test_a_pattern_of_a_changed_scale_is_refused(normal):
    query, score = normal(1, 3, 5, 11), Cosine(scale=torch.tensor(3.0))
    pattern = attend(query, query, query, score=score).pattern
    pattern[0]
    score.scale.mul_(2)
    assert refusal(ValueError, lambda: pattern[0]) == CHANGED_TENSOR


def test_a_scale_of_another_shape_is_refused(normal):
    assert refusal(ValueError, lambda: Cosine(scale=torch.ones(3, 1, 1))) == (
        "scale has shape [3, 1, 1]; it is one number, or one for each head, so flatten it."
    )
    query = normal(1, 3, 5, 11)
    assert refusal(ValueError, lambda: attend(query, query, query, score=Cosine(scale=torch.ones(2)))) == (
        "scale has 2 numbers with 3 heads; give one, or one for each head."
    )
