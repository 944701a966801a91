"""Tests of ALiBi: the slopes of the paper, of BLOOM and of MPT, and distances too large for float16 and bfloat16."""

import math

import pytest
import torch
from oracle import eager
from refusals import refusal
from torch.testing import assert_close

from regard import Alibi, Causal, ScaledDot, attend
from regard.attention.scores.biases.alibi import alibi_slopes


@pytest.mark.parametrize("n_heads", [1, 2, 3, 5, 8, 12, 13, 16, 31, 40, 64])
def test_slopes_equal_those_of_bloom_and_of_mpt(n_heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    bloom = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), n_heads, torch.float32)[:, 0, 1]
    mpt = -build_mpt_alibi_tensor(n_heads, 2)[:, 0, 0]
    assert_close(alibi_slopes(n_heads).float(), bloom)
    assert_close(alibi_slopes(n_heads).float(), mpt)


def test_slopes_are_those_of_the_paper():
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    assert alibi_slopes(16).tolist() == [2.0 ** (-h / 2) for h in range(1, 17)]


def test_causal_attention_with_alibi_has_the_weights_of_bloom(normal):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    query, key = normal(1, 5, 7, 11), normal(1, 5, 7, 11)
    alibi = build_alibi_tensor(torch.ones(1, 7, dtype=torch.long), 5, torch.float32)  # of the key's position alone
    scores = query @ key.mT / math.sqrt(11) + alibi[None]
    expected = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -math.inf).softmax(-1)
    assert_close(attend(query, key, key, score=ScaledDot(bias=Alibi()), mask=Causal()).pattern.dense(), expected)


def test_keys_whose_bias_overflows_a_half_type_are_masked(normal):
    rule, query = Alibi(slopes=torch.tensor([7001.0])), normal(1, 1, 13, 5).half()
    seen = attend(query, query, query, score=ScaledDot(bias=rule))
    assert seen.pattern.scores(0, 0, 0)[10:].tolist() == [-math.inf] * 3  # 70010 is more than float16 holds
    assert seen.pattern.dense().isfinite().all()
    assert seen.context.isfinite().all()
    blind = attend(query, query, query, score=ScaledDot(bias=Alibi(slopes=rule.slopes, offset=10)), mask=Causal(10))
    assert seen.backend == blind.backend == "fused"
    assert not blind.pattern.dense()[0, 0, 12].any()  # every key is 10 or more away from the last query
    assert not blind.context[0, 0, 12].any()
    assert torch.equal(blind.pattern.top(1).keys[0, 0, [0, 12]], torch.tensor([[10], [-1]]))


def test_slopes_can_be_trained(normal):
    slopes = normal(6).requires_grad_()
    query = normal(2, 6, 11, 5)
    attend(query, query, query, score=ScaledDot(bias=Alibi(slopes=slopes))).context.square().sum().backward()
    found, slopes.grad = slopes.grad, None
    numbers = -slopes[:, None, None] * (torch.arange(11) - torch.arange(11)[:, None]).abs()
    eager(query, query, query, bias=numbers)[0].square().sum().backward()
    assert_close(found, slopes.grad)


@pytest.mark.parametrize(
    ("refused", "kind", "message"),
    [
        (
            lambda x: attend(x, x, x, score=ScaledDot(bias=Alibi(slopes=torch.ones(2)))),
            ValueError,
            "Alibi was given slopes of shape [2] for 3 heads; give one for each head, [3], or None for "
            "the paper's slopes.",
        ),
        (
            lambda x: Alibi(4),
            TypeError,
            "Alibi was given slopes=4; it takes a tensor of one number for each head, or None for the paper's slopes: "
            "Alibi() fits any number of heads.",
        ),
    ],
)
def test_refusals(normal, without_type_checks, refused, kind, message):
    assert refusal(kind, lambda: refused(normal(1, 3, 5, 7))) == message
