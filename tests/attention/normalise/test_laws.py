"""What holds for every normaliser, whatever its formula, for drawn sizes, scores and masks."""

import math
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import near

import regard.attention.pattern as room
from regard import (
    Entmax,
    GumbelSoftmax,
    Hard,
    Local,
    Padding,
    Sampled,
    Sigmoid,
    Softmax,
    SoftmaxPlusOne,
    Sparsemax,
    StraightThrough,
    TopK,
    attend,
)
from regard.attention.grid import Grid
from regard.attention.normalise.normaliser import Normaliser

HEADS = 3
SINKS = torch.tensor([0.3, -0.7, 2.0], dtype=torch.float64)
CENTRES = torch.tensor([0.4, 1.0, 5.5], dtype=torch.float64)[None, :, None]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A normaliser, and which of the laws that do not hold for all hold for it."""

    of: Normaliser
    sum: Literal["1", "at most 1", "at most keys"] = "1"
    ignores_a_shift: bool = True
    """Adding a constant to all scores of a query changes nothing."""
    ignores_order: bool = True
    """Keys in another order get the same weights."""
    differentiable: bool = True


KINDS = [
    Kind(of=Softmax()),
    Kind(of=Softmax(temperature=0.4)),
    Kind(of=Softmax(temperature=0.0), differentiable=False),
    Kind(of=Softmax(sinks=SINKS), sum="at most 1", ignores_a_shift=False),
    Kind(of=SoftmaxPlusOne(), sum="at most 1", ignores_a_shift=False),
    Kind(of=Sparsemax()),
    Kind(of=Entmax(alpha=1.0)),
    Kind(of=Entmax(alpha=1.25)),
    Kind(of=Entmax(alpha=1.5)),
    Kind(of=Entmax(alpha=2.0)),
    Kind(of=Entmax(alpha=3.0)),
    Kind(of=Sigmoid(), sum="at most keys", ignores_a_shift=False),
    Kind(of=Sigmoid(bias=-1.3), sum="at most keys", ignores_a_shift=False),
    Kind(of=TopK(1)),
    Kind(of=TopK(3)),
    Kind(of=Hard(), differentiable=False),
    Kind(of=Hard(Sampled(seed=7)), ignores_order=False, differentiable=False),
    Kind(of=Hard(StraightThrough(Sparsemax())), differentiable=False),
    Kind(of=Hard(StraightThrough(GumbelSoftmax(seed=7))), ignores_order=False, differentiable=False),
    Kind(of=GumbelSoftmax(seed=7, temperature=0.6), ignores_order=False),
    Kind(of=Local(CENTRES, reach=3.3), sum="at most 1", ignores_order=False),
]
SHIFTED = [kind for kind in KINDS if kind.ignores_a_shift]
ORDERED = [kind for kind in KINDS if kind.ignores_order]
DIFFERENTIABLE = [kind for kind in KINDS if kind.differentiable]


def name(kind: Kind) -> str:
    return repr(kind.of)


def every(kinds):
    return pytest.mark.parametrize("kind", kinds, ids=name)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Queries, keys and values of two items and three heads, and a mask with queries that see nothing."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    keep: torch.Tensor

    def attend(self, kind, **given):
        return attend(self.query, self.key, self.value, normalise=kind.of, **{"mask": self.keep} | given)


@st.composite
def drawn(draw) -> Drawn:
    queries, keys = draw(st.sampled_from([(5, 7), (1, 7), (5, 2), (11, 1)]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    spread = draw(st.sampled_from([0.3, 1.0, 4.0]))
    keep = torch.rand(2, HEADS, queries, keys, generator=generator) < draw(st.sampled_from([0.2, 0.7, 1.0]))
    return Drawn(
        query=spread * normal(2, HEADS, queries, 5),
        key=normal(2, HEADS, keys, 5),
        value=normal(2, HEADS, keys, 13),
        keep=keep,
    )


@every(KINDS)
@settings(max_examples=10)
@given(case=drawn())
def test_masked_keys_and_blind_queries_have_weight_0_and_none_is_negative(kind, case):
    seen = case.attend(kind)
    weights = seen.pattern.dense()
    assert bool((weights >= 0).all())
    assert not bool(weights[~case.keep].any())
    blind = ~case.keep.any(-1)
    assert not bool(seen.context[blind].any())
    assert not bool(seen.pattern.entropy()[blind].any())
    assert bool((seen.pattern.top(1).keys[blind] == -1).all())


@every(KINDS)
@settings(max_examples=10)
@given(case=drawn())
def test_rows_sum_to_what_is_promised(kind, case):
    total = case.attend(kind).pattern.dense().sum(-1)[case.keep.any(-1)]
    if kind.sum == "1":
        near(total, torch.ones_like(total))
    else:
        most = 1 if kind.sum == "at most 1" else case.keep.sum(-1)[case.keep.any(-1)]
        assert bool((total <= most).all())
        assert not bool(torch.isclose(total, torch.ones_like(total)).all()) or len(total) < 3


@every(KINDS)
@settings(max_examples=10)
@given(case=drawn(), kept=st.integers(0, 7))
def test_keys_masked_at_the_end_are_as_good_as_absent(kind, case, kept):
    kept = min(kept, case.key.shape[2])
    masked = case.attend(kind, mask=Padding(torch.tensor([kept])))
    absent = attend(case.query, case.key[:, :, :kept], case.value[:, :, :kept], normalise=kind.of)
    near(masked.context, absent.context)
    near(masked.pattern.dense()[..., :kept], absent.pattern.dense())


@every(ORDERED)
@settings(max_examples=10)
@given(case=drawn())
def test_masked_keys_anywhere_are_as_good_as_absent(kind, case):
    column = case.keep[0, 0, 0]
    masked = case.attend(kind, mask=column)
    absent = attend(case.query, case.key[:, :, column], case.value[:, :, column], normalise=kind.of)
    near(masked.context, absent.context)


@every(ORDERED)
@settings(max_examples=10)
@given(case=drawn(), data=st.data())
def test_the_order_of_the_keys_does_not_matter(kind, case, data):
    order = data.draw(st.permutations(range(case.key.shape[2])))
    there = attend(
        case.query, case.key[:, :, order], case.value[:, :, order], mask=case.keep[..., order], normalise=kind.of
    )
    here = case.attend(kind)
    near(there.pattern.dense(), here.pattern.dense()[..., order])
    near(there.context, here.context)


@every(SHIFTED)
@settings(max_examples=10)
@given(case=drawn(), shift=st.sampled_from([-64.0, 0.5, 1024.0]))
def test_a_constant_added_to_all_scores_changes_nothing(kind, case, shift):
    scores = torch.round(case.query @ case.key.mT * 2**20) / 2**20  # so that the sums are exact
    tile = Grid(*scores.shape).whole()
    near(kind.of(scores + shift, case.keep, tile), kind.of(scores, case.keep, tile))


@every([kind for kind in KINDS if not kind.ignores_a_shift])
def test_the_other_kinds_do_see_a_constant(kind, normal):
    scores, tile = normal(1, HEADS, 5, 7), Grid(1, HEADS, 5, 7).whole()
    assert float((kind.of(scores + 2, None, tile) - kind.of(scores, None, tile)).abs().max()) > 0.01


@every(KINDS)
@settings(max_examples=10)
@given(case=drawn(), block=st.sampled_from([1, 29, 2**22]))
def test_any_part_by_any_blocks_is_the_same(kind, case, block):
    seen = case.attend(kind)
    whole = seen.pattern.dense()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "BLOCK_WEIGHTS", block)
        pattern, again = seen.pattern, case.attend(kind)
        near(pattern.dense(), whole)
        near(again.context, seen.context)
        near(pattern[1, 2, 0], whole[1, 2, 0])
        near(pattern[0, :, -1], whole[0, :, -1])
        near(pattern[:, [2, 0], ::2, 1:], whole[:, [2, 0], ::2, 1:])
        near(pattern[1, 1, :, [0]], whole[1, 1, :, [0]])
        near(pattern.received(), whole.sum(2))


@every(KINDS)
@settings(max_examples=10)
@given(case=drawn())
def test_every_statistic_is_that_of_the_weights(kind, case):
    seen = case.attend(kind)
    pattern, weights = seen.pattern, seen.pattern.dense()
    queries, keys = weights.shape[2:]
    assert seen.backend == ("fused" if name(kind) in ("Softmax()", "Softmax(temperature=0.4)") else "tiled")
    near(seen.context, weights @ case.value)
    near(pattern.apply(case.value), weights @ case.value)
    near(pattern.back(case.query[..., 0]), (case.query[..., :1].mT @ weights)[:, :, 0])
    near(pattern.received(), weights.sum(2))
    near(pattern.entropy(), -torch.where(weights > 0, weights * weights.log(), 0.0).sum(-1))
    near(pattern.top(keys).weights, weights.sort(-1, descending=True).values)
    near(pattern.pooled(1, 1, "sum")[..., 0, 0], weights.sum((2, 3)))
    near(pattern.pooled(queries, keys), weights)
    near(pattern.steps(1, 2).weights, weights[1, 2])
    near(pattern.steps(1, 2).context, (weights @ case.value)[1, 2])


@every(DIFFERENTIABLE)
def test_the_gradient_of_the_context(kind, normal):
    query, key, value = (normal(2, HEADS, n, 5, dtype=torch.float64).requires_grad_() for n in (2, 7, 7))
    keep = torch.rand(2, HEADS, 2, 7, generator=torch.Generator().manual_seed(2)) < 0.6
    keep[1, 2, 0] = False

    def context(query, key, value):
        return attend(query, key, value, mask=keep, normalise=kind.of).context

    assert torch.autograd.gradcheck(context, (query, key, value), fast_mode=True)


@every(KINDS)
def test_a_half_type_is_normalised_in_float32(kind, normal):
    query, key, value = (normal(2, HEADS, n, 5).to(torch.bfloat16) for n in (5, 7, 7))
    seen = attend(query, key, value, normalise=kind.of)
    assert (seen.context.dtype, seen.pattern.dense().dtype) == (torch.bfloat16, torch.float32)
    exact = attend(query.double(), key.double(), value.double(), normalise=kind.of)
    torch.testing.assert_close(seen.pattern.dense().double(), exact.pattern.dense(), rtol=1e-4, atol=2e-6)
    torch.testing.assert_close(seen.context.double(), exact.context, rtol=2e-2, atol=2e-2)


@every(KINDS)
@pytest.mark.parametrize(("queries", "keys"), [(0, 7), (5, 0)])
def test_no_queries_and_no_keys(kind, queries, keys, normal):
    seen = attend(
        normal(2, HEADS, queries, 5), normal(2, HEADS, keys, 5), normal(2, HEADS, keys, 13), normalise=kind.of
    )
    assert seen.pattern.dense().shape == (2, HEADS, queries, keys)
    assert not bool(seen.context.any())


def test_the_families_meet_at_their_limits(normal):
    scores, tile = normal(2, HEADS, 5, 7, dtype=torch.float64), Grid(2, HEADS, 5, 7).whole()
    pairs = {
        Entmax(alpha=1 + 1e-9): Softmax(),
        Entmax(alpha=1e6): Hard(),
        Softmax(temperature=1e-4): Hard(),
        TopK(7): Softmax(),
        TopK(1): Hard(),
        GumbelSoftmax(seed=7, temperature=1e-5): Hard(Sampled(seed=7)),
        Hard(Sampled(seed=7, temperature=1e-6)): Hard(),
        Local(CENTRES, reach=1e6): Softmax(),
        Softmax(sinks=torch.full((HEADS,), -math.inf)): Softmax(),
    }
    for limit, family in pairs.items():
        torch.testing.assert_close(limit(scores, None, tile), family(scores, None, tile), rtol=0, atol=1e-6)
