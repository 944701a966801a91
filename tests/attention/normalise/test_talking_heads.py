"""Tests of talking heads: against a loop in float64, laws, and any part of the pattern."""

import math

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import (
    Causal,
    Hard,
    MultiHeadAttention,
    Softmax,
    Sparsemax,
    StraightThrough,
    TalkingHeads,
    attend,
    use_backend,
)


def talking(normal, n_heads=3, **options):
    """Return `TalkingHeads` whose mixing matrices are far from the identity and have negative numbers."""
    module = TalkingHeads(n_heads, **options)
    with torch.no_grad():
        module.before.copy_(normal(n_heads, n_heads))
        module.after.copy_(normal(n_heads, n_heads))
    return module.double()


def by_loop(query, key, value, before, after, keep):
    """Compute the paper's section 3 number by number: J = Q K, L = J P_l, W = softmax(L), U = W P_w, O = U V."""
    batch, heads, queries, width = query.shape
    keys = key.shape[2]
    weights = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    for b in range(batch):
        for i in range(queries):
            products = [
                [
                    sum(float(query[b, h, i, d] * key[b, h, j, d]) for d in range(width)) / math.sqrt(width)
                    for j in range(keys)
                ]
                for h in range(heads)
            ]
            soft = []
            for h in range(heads):
                heard = [sum(float(before[h, g]) * products[g][j] for g in range(heads)) for j in range(keys)]
                exps = [math.exp(x) if keep(i, j) else 0.0 for j, x in enumerate(heard)]
                soft.append([x / sum(exps) for x in exps])
            for h in range(heads):
                for j in range(keys):
                    weights[b, h, i, j] = sum(float(after[h, g]) * soft[g][j] for g in range(heads))
    return weights @ value, weights


@pytest.mark.parametrize("mask", [None, Causal()], ids=repr)
def test_weights_and_contexts_equal_the_papers_formula_in_a_loop(normal, mask):
    query, key, value = (normal(2, 3, n, d, dtype=torch.float64) for n, d in ((5, 2), (7, 2), (7, 4)))
    module = talking(normal)
    context, weights = by_loop(
        query, key, value, module.before.detach(), module.after.detach(), lambda i, j: mask is None or j <= i + 2
    )
    seen = attend(query, key, value, mask=mask, normalise=module)
    assert seen.backend == "tiled"
    assert_close(seen.pattern.dense(), weights)
    assert_close(seen.context, context)


def test_by_hand():
    module = TalkingHeads(2)
    with torch.no_grad():
        module.before.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))  # each head takes the other's scores
        module.after.copy_(torch.tensor([[1.0, 0.0], [1.0, -1.0]]))
    query = torch.tensor([[[[0.0]], [[math.log(3.0)]]]])
    key = torch.tensor([[[[0.0], [1.0]]]]).expand(1, 2, 2, 1)
    seen = attend(query, key, key, normalise=module)
    assert_close(seen.pattern.dense()[0, :, 0], torch.tensor([[0.25, 0.75], [-0.25, 0.25]]))


def test_untrained_talking_heads_change_nothing(normal):
    x = normal(2, 3, 7, 5)
    for normalise in ({}, {"normalise": Sparsemax()}):
        seen = attend(x, x, x, mask=Causal(), normalise=TalkingHeads(3, **normalise))
        assert_close(seen.context, attend(x, x, x, mask=Causal(), **normalise).context)


def test_a_masked_key_is_as_good_as_absent_and_blind_queries_read_nothing(normal):
    x, module = normal(2, 3, 7, 5, dtype=torch.float64), talking(normal)
    kept = [0, 1, 2, 4, 6]
    mask = torch.zeros(7, dtype=torch.bool).index_fill(0, torch.tensor(kept), True)
    x[:, :, 3] = 1e300  # were it heard, there would be a NaN
    masked = attend(x, x, x, mask=mask, normalise=module)
    absent = attend(x, x[:, :, kept], x[:, :, kept], normalise=module)
    assert_close(masked.context[:, :, kept], absent.context[:, :, kept])
    assert not attend(x, x, x, mask=Causal(-1), normalise=module).context[:, :, 0].any()


def test_a_key_masked_in_one_head_has_no_weight_there_and_score_0_for_the_other_heads(normal):
    x, module = normal(1, 3, 5, 2, dtype=torch.float64), talking(normal)
    keep = torch.ones(3, 5, 5, dtype=torch.bool)
    keep[1, :, 2] = False
    weights = attend(x, x, x, mask=keep, normalise=module).pattern.dense()
    assert not weights[0, 1, :, 2].any()
    scores = (x @ x.mT / math.sqrt(2)).masked_fill(~keep, 0.0)
    heard = torch.stack([sum(module.before[h, g] * scores[0, g] for g in range(3)) for h in range(3)])
    soft = heard.masked_fill(~keep, -math.inf).softmax(dim=-1)
    assert_close(weights[0, 0], sum(module.after[0, g] * soft[g] for g in range(3)))


def test_top_keys_are_allowed_keys_even_if_their_weights_are_negative(normal):
    x, module = normal(2, 3, 7, 5, dtype=torch.float64), talking(normal)
    pattern = attend(x, x, x, mask=Causal(), normalise=module).pattern
    top, dense = pattern.top(4), pattern.dense()
    assert bool((dense < 0).any())
    for i in range(7):
        expected = dense[:, :, i, : i + 1].sort(dim=-1, descending=True).values[..., :4]
        assert_close(top.weights[:, :, i, : min(4, i + 1)], expected)
        assert bool((top.keys[:, :, i, : min(4, i + 1)] >= 0).all())
        assert bool((top.keys[:, :, i, i + 1 :] == -1).all())


def test_untrained_talking_heads_over_hard_attention_are_hard_attention(normal):
    x = normal(1, 3, 7, 5)
    weights = attend(x, x, x, normalise=TalkingHeads(3, Hard(StraightThrough()))).pattern.dense()
    assert_close(weights, attend(x, x, x, normalise=Hard()).pattern.dense())


def test_its_parameters_are_those_of_the_layer_that_holds_it(normal):
    module = MultiHeadAttention(6, 3, normalise=TalkingHeads(3))
    assert {"normalise.before", "normalise.after"} <= set(module.state_dict())
    module(normal(2, 5, 6)).output.sum().backward()
    assert bool(module.normalise.before.grad.any())


def test_sinks_of_its_softmax_are_its_parameters(normal):
    sinks = torch.nn.Parameter(torch.tensor([0.5, -1.0]))
    module, x = TalkingHeads(2, Softmax(sinks=sinks)), normal(1, 2, 5, 3)
    assert sum(parameter is sinks for parameter in module.parameters()) == 1
    assert torch.equal(module.state_dict()["held_parameters.0"], sinks)
    attend(x, x, x, normalise=module).context.sum().backward()
    assert bool((sinks.grad != 0).all())


def test_refusals(normal):
    x = normal(1, 2, 5, 3)
    assert refusal(ValueError, lambda: attend(x, x, x, normalise=TalkingHeads(3))) == (
        "TalkingHeads mixes 3 heads and query has 2 heads; build it with TalkingHeads(2)."
    )
    assert refusal(ValueError, lambda: TalkingHeads(0)) == "n_heads=0 is too small; it must be at least 1."
    assert refusal(ValueError, lambda: Hard(StraightThrough(TalkingHeads(3)))) == (
        "StraightThrough(TalkingHeads(n_heads=3)) chooses a key in each head separately, so its normaliser must not "
        "mix heads; use TalkingHeads(n_heads, Hard(StraightThrough())) instead."
    )
    for question in (lambda pattern: pattern.entropy(), lambda pattern: pattern.summary()):
        assert refusal(ValueError, question, attend(x, x, x, normalise=TalkingHeads(2)).pattern) == (
            "weights by TalkingHeads(n_heads=2) may be negative, so they have no entropy; ask with entropy=False."
        )
    with use_backend("fused"):
        message = refusal(ValueError, lambda: attend(x, x, x, normalise=TalkingHeads(2)))
    assert message == (
        "the fused backend, set by use_backend, does not support this call: the fused kernel normalises by softmax, "
        "not TalkingHeads; use_backend('tiled') supports every call, or let attend choose a backend."
    )
