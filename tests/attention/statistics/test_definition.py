"""Tests of every statistic against its definition in float64, over masks, scores, normalisers, layouts and types."""

import math

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from oracle import BATCH, HEADS, masks
from torch.testing import assert_close

from regard import Alibi, Ask, Causal, Distance, General, Keep, Padding, Pattern, ScaledDot, Softmax, attend
from regard.attention.masks import as_mask
from regard.attention.statistics.cpu import plan

Q, K, D = 37, 53, 7
MASKS = {name: mask for name, (mask, _) in masks(Q, K).items()}
SCORES = {
    "scaled": lambda: ScaledDot(),
    "steep": lambda: ScaledDot(scale=3.1),
    "negative": lambda: ScaledDot(scale=-0.7),
    "capped and biased": lambda: ScaledDot(softcap=2.0, bias=Alibi()),
    "barred by bias": lambda: ScaledDot(bias=torch.zeros(K).index_fill(0, torch.tensor([0, 7]), -math.inf)),
    "distance": lambda: Distance(),
    "general": lambda: general(),
}
SINKS = torch.tensor([0.3, -2.0, 5.0, 200.0, 0.0, -math.inf])
SOFT = {
    "softmax": Softmax(),
    "temperature": Softmax(temperature=0.4),
    "sinks": Softmax(sinks=SINKS),
    "temperature and sinks": Softmax(temperature=1.7, sinks=SINKS),
}
ROWS, COLUMNS, TOP = 11, 17, 6
GROUPS = torch.rand(3, K, generator=torch.Generator().manual_seed(7)) < 0.3


def general():
    """Return a `General` score with seeded random parameters."""
    score = General(D, D)
    torch.nn.init.normal_(score.weight, generator=torch.Generator().manual_seed(9))
    return score


def laid_out(n_heads, n_tokens, width, seed, batch=BATCH, beyond=0.0):
    """Return vectors as a slice of a longer tensor [batch tokens heads width], the memory layout of a model."""
    longer = torch.full((batch, n_tokens + 4, n_heads, width), beyond)
    longer[:, 2:-2] = torch.randn(batch, n_tokens, n_heads, width, generator=torch.Generator().manual_seed(seed))
    return longer[:, 2:-2].transpose(1, 2)


def by_definition(pattern: Pattern, reduce: str) -> dict[str, torch.Tensor]:
    """Return the statistics of a pattern, computed from its whole weight matrix."""
    weights, query, key = pattern.dense(), torch.arange(Q), torch.arange(K)
    own = query + K - Q
    by_weight = weights.where(weights > torch.finfo(torch.float32).tiny, 0.0)  # beside a large sink float32 has 0
    row, column = query * ROWS // Q, key * COLUMNS // K
    cells = [[weights[:, :, row == r][..., column == c].flatten(2) for c in range(COLUMNS)] for r in range(ROWS)]
    reduced = {"mean": lambda cell: cell.mean(-1), "sum": lambda cell: cell.sum(-1), "max": lambda cell: cell.amax(-1)}
    return {
        "received": weights.sum(dim=2),
        "entropy": torch.special.entr(weights).sum(dim=3),
        "distance": (by_weight * (own[:, None] - key).abs()).sum(dim=3)
        / by_weight.sum(dim=3).where(by_weight.any(dim=3), 1),
        "first": weights[..., 0],
        "own": weights[:, :, query, own],
        "previous": weights[:, :, query, own - 1],
        "groups": weights @ GROUPS.double().T,
        "pooled": torch.stack([torch.stack([reduced[reduce](c) for c in line], -1) for line in cells], -2),
    }


@settings(max_examples=50, phases=[Phase.generate])  # to shrink an example would take minutes
@given(
    mask=st.sampled_from(sorted(MASKS)), score=st.sampled_from(sorted(SCORES)),
    soft=st.sampled_from(sorted(SOFT)), key_heads=st.sampled_from([1, 2, 3, 6]), key_batch=st.sampled_from([1, BATCH]),
    reduce=st.sampled_from(["mean", "max", "sum"]), dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    size=st.sampled_from([8, 19, 40]), seed=st.integers(0, 999),
)  # fmt: skip
def test_every_statistic_is_what_its_definition_says(
    mask, score, soft, key_heads, key_batch, reduce, dtype, size, seed
):
    query = laid_out(HEADS, Q, D, seed, beyond=math.nan).to(dtype)
    key, value = (laid_out(key_heads, K, width, seed + 1, key_batch, math.nan).to(dtype) for width in (D, D + 2))
    how = {"mask": MASKS[mask], "score": SCORES[score](), "normalise": SOFT[soft]}
    ask = Ask(own=True, previous=True, groups=GROUPS, top=TOP, pooled=(ROWS, COLUMNS), reduce=reduce)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(plan, "BLOCK_QUERIES", size)
        before = attend(query, key, value, ask=ask, **how)
        pattern = attend(query, key, value, **how).pattern
        after = pattern.answer(ask)
        how["score"] = how["score"].double() if score == "general" else how["score"]
        exact = attend(query.double(), key.double(), value.double(), **how)
        expected, weights = by_definition(exact.pattern, reduce), exact.pattern.dense()
    for name, numbers in expected.items():
        found = getattr(after, name)
        scale = K if name == "distance" else max(1.0, numbers.abs().max().item())
        assert_close(found.double(), numbers, rtol=1e-5, atol=4e-6 * scale, msg=name)
        assert torch.equal(found, getattr(before.pattern.statistics, name)), name  # asked with the context or later
    assert_close(after.top.weights.double(), weights.topk(TOP).values, rtol=1e-5, atol=4e-6)
    named = weights.gather(3, after.top.keys.clamp_min(0)).masked_fill(after.top.keys < 0, 0.0)
    assert_close(after.top.weights.double(), named, rtol=1e-5, atol=4e-6)
    assert_close(before.context.double(), exact.context, rtol=2 * torch.finfo(dtype).eps, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_nan_in_the_padding_never_shows(side):
    query, key, value = laid_out(HEADS, Q, D, 1), laid_out(2, K, D, 2), laid_out(2, K, D, 3)
    lengths = torch.tensor([31, 0])
    pads = ~Padding(lengths, side=side).keep(attend(query, key, value).pattern.grid.whole(), query.device)[:, 0, 0]
    ask = Ask(own=True, previous=True, top=TOP, pooled=(ROWS, COLUMNS))
    found = []
    for rubbish in (0.0, math.nan):
        filled = (part.masked_fill(pads[:, None, :, None], rubbish) for part in (key, value))
        found.append(attend(query, *filled, mask=Padding(lengths, side=side), ask=ask))
    clean, padded = found
    assert torch.equal(clean.context, padded.context)
    for name in ("received", "entropy", "distance", "first", "own", "previous", "pooled"):
        assert torch.equal(getattr(clean.pattern.statistics, name), getattr(padded.pattern.statistics, name)), name
    assert torch.equal(clean.pattern.statistics.top.weights, padded.pattern.statistics.top.weights)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n_tokens", [64, 700])
def test_weights_of_half_types_are_those_of_float64_of_the_same_numbers(dtype, n_tokens):
    query, key = (laid_out(2, n_tokens, 64, seed).to(dtype) for seed in (1, 2))
    exact = attend(query.double(), key.double(), key.double(), mask=Causal()).pattern.dense()
    pattern = attend(query, key, key, mask=Causal()).pattern
    strongest = pattern.top(8)
    there = strongest.keys >= 0
    expected = exact.gather(3, strongest.keys.clamp_min(0))[there]
    assert ((strongest.weights.double()[there] - expected).abs() / expected).max() < 1e-4
    seen = exact > 0
    assert ((pattern.dense().double() - exact).abs()[seen] / exact[seen]).max() < 1e-4


@pytest.mark.parametrize("name", sorted(MASKS))
def test_a_mask_of_ranges_gives_the_same_statistics_as_its_matrix(name, monkeypatch):
    """The kernel is given the limits of one range for each query, or scores that the matrix has masked."""
    query, key, value = laid_out(HEADS, Q, D, 1), laid_out(2, K, D, 2), laid_out(2, K, D, 3)
    ask, mask = Ask(own=True, previous=True, top=TOP, pooled=(ROWS, COLUMNS), reduce="sum"), as_mask(MASKS[name])
    by_ranges = attend(query, key, value, mask=mask, ask=ask)
    ranges = None if mask is None else mask.ranges(by_ranges.pattern.grid, query.device)
    limits = plan.KeyLimits.of(by_ranges.pattern.grid, by_ranges.pattern.mask)
    assert (limits is not None) == (ranges is not None and len(ranges.without_empty().starts) == 1)
    whole = by_ranges.pattern.grid.whole()
    matrix = None if mask is None else Keep(mask.keep(whole, query.device).expand(whole.shape))
    by_matrix = attend(query, key, value, mask=matrix, ask=ask)
    assert_close(by_ranges.context, by_matrix.context, rtol=1e-5, atol=1e-6)
    for statistic in ("received", "entropy", "distance", "first", "own", "previous", "pooled"):
        of_both = (getattr(seen.pattern.statistics, statistic) for seen in (by_ranges, by_matrix))
        assert_close(*of_both, rtol=1e-5, atol=1e-5)
    assert torch.equal(by_ranges.pattern.statistics.top.keys, by_matrix.pattern.statistics.top.keys)
