"""Tests that a masked-out key is as good as absent, even if its vectors are NaN, infinite or very large."""

import math

import pytest
import torch
from kinds import MASKS, NORMALISERS, SCORES, built
from torch.testing import assert_close

from regard import Ask, Causal, ScaledDot, Softmax, attend, use_backend

SPOILED = [
    ("key and value", math.nan),
    ("key", math.nan),
    ("key", -math.inf),
    ("value", math.inf),
    ("key and value", 3.4e38),
]
"""Pairs (the tensors that are overwritten at the masked-out key, the number that is written)."""

ASK = Ask(entropy=True, received=True, top=2, distance=True, first=True)
PER_QUERY = ("entropy", "distance", "first")


def spoiled(tensor, number, key):
    """Return a copy of a tensor in which all numbers of the vector at one key are `number`."""
    return torch.where(torch.arange(tensor.shape[2])[:, None] == key, number, tensor)


def check_law(clean, spoilt, keep):
    """Fail unless overwriting the last key changes nothing for the queries that may not attend to it."""
    unseen = ~keep[..., -1].expand(clean.context.shape[:3])
    close = {"rtol": 1e-5, "atol": 1e-5, "check_dtype": False}
    assert_close(spoilt.context[unseen], clean.context[unseen], **close)
    assert_close(spoilt.pattern.dense()[unseen], clean.pattern.dense()[unseen], **close)
    before, after = (one.pattern.summary(top=1) for one in (clean, spoilt))
    for name in PER_QUERY:
        assert_close(getattr(after, name)[unseen], getattr(before, name)[unseen], **close)
    assert_close(after.top.weights[unseen], before.top.weights[unseen], **close)


@pytest.mark.parametrize(
    ("name", "place", "number"),
    [(name, *SPOILED[0]) for name in MASKS if name != "none"]
    + [(name, *pair) for name in ("Causal", "Either", "Keep") for pair in SPOILED[1:]],
)
def test_no_query_that_a_mask_keeps_from_a_key_learns_what_the_key_holds(name, place, number):
    case = built({"mask": name}, (19, 37))
    query, key, value = (part.float() for part in (case.query, case.key, case.value))
    new_key = spoiled(key, number, 36) if "key" in place else key
    new_value = spoiled(value, number, 36) if "value" in place else value
    clean = attend(query, key, value, mask=case.mask)
    for ask in (None, ASK):
        spoilt = attend(query, new_key, new_value, mask=case.mask, ask=ask)
        check_law(clean, spoilt, case.keep)
        sees = case.keep[..., -1]
        if "value" in place and not math.isfinite(number):
            assert not spoilt.context[sees].isfinite().any()


@pytest.mark.parametrize(
    ("stage", "name"), [*(("normalise", name) for name in NORMALISERS), *(("score", name) for name in SCORES)]
)
def test_a_masked_key_of_nan_changes_no_context_for_any_normaliser_and_score(stage, name):
    case = built({"mask": "Causal", stage: name}, (19, 37))
    clean, spoilt = (
        case.attend(key=spoiled(case.key, n, 36), value=spoiled(case.value, n, 36)) for n in (0.0, math.nan)
    )
    unseen = ~case.keep[..., -1]
    assert_close(spoilt.context[unseen], clean.context[unseen])


@pytest.mark.parametrize("backend", ["fused", "math", "tiled", "reference"])
def test_the_tiled_backend_computes_a_call_with_a_masked_key_of_nan_whatever_backend_is_set(normal, backend):
    query, key, value = normal(1, 2, 40, 8), normal(1, 2, 40, 8), normal(1, 2, 40, 8)
    with use_backend(backend):
        clean = attend(query, key, value, mask=Causal())
        spoilt = attend(query, spoiled(key, math.nan, 39), spoiled(value, math.nan, 39), mask=Causal())
    assert_close(spoilt.context[:, :, :39], clean.context[:, :, :39])
    assert spoilt.context[:, :, 39].isnan().all()
    assert (clean.backend, spoilt.backend) == (backend, "tiled")


def test_an_infinite_value_shows_in_the_queries_that_see_it_and_in_no_others(normal):
    query, key, value = normal(1, 1, 3, 8), normal(1, 1, 3, 8), normal(1, 1, 3, 2)
    value[0, 0, 1] = torch.tensor([math.inf, -math.inf])
    seen = attend(query, key, value, mask=Causal())
    assert seen.context[0, 0, 0].isfinite().all()
    assert seen.context[0, 0, 1:].tolist() == [[math.inf, -math.inf]] * 2
    assert seen.pattern.steps(0, 0).context[0].isfinite().all()
    assert seen.pattern.steps(0, 0).weighted_values[0, 1].tolist() == [0.0, 0.0]


def test_nan_in_a_value_shows_in_its_own_column_alone(normal):
    query, key, value = normal(1, 1, 3, 8), normal(1, 1, 3, 8), normal(1, 1, 3, 2)
    value[0, 0, 1, 0] = math.nan
    context = attend(query, key, value, mask=Causal()).context[0, 0]
    assert context.isnan().tolist() == [[False, False], [True, False], [True, False]]


@pytest.mark.parametrize(
    ("query", "keys", "weights"),
    [
        (1e20, [-1e20, 0.0, 0.0], [0.0, 0.5, 0.5]),
        (1e20, [1e20, 0.0, 1e20], [0.5, 0.0, 0.5]),
        (1e20, [1e20, 1.0, -1e20], [1.0, 0.0, 0.0]),
    ],
)
@pytest.mark.parametrize("backend", ["fused", "tiled", "math"])
@pytest.mark.parametrize("softcap", [None, 5.0])
def test_scores_that_overflow_float32_are_computed_in_float64(query, keys, weights, backend, softcap):
    keys = torch.tensor(keys).view(1, 1, 3, 1)
    one = torch.full((1, 1, 1, 1), query)
    if softcap is not None:
        weights = (
            torch.tensor([softcap * math.tanh(query * key / softcap) for key in keys.flatten()]).softmax(0).tolist()
        )
        backend = "tiled"
    with use_backend(backend):
        seen = attend(one, keys, torch.tensor([1.0, 2.0, 4.0]).view(1, 1, 3, 1), score=ScaledDot(softcap=softcap))
    assert seen.pattern.dense().flatten().tolist() == pytest.approx(weights, abs=1e-6)
    assert seen.context.item() == pytest.approx(weights[0] + 2 * weights[1] + 4 * weights[2], abs=1e-6)
    entropy = -sum(weight * math.log(weight) for weight in weights if weight)
    assert seen.pattern.entropy().item() == pytest.approx(entropy, abs=1e-6)
    assert seen.pattern.summary().entropy.item() == pytest.approx(entropy, abs=1e-6)


def test_scores_overflow_beside_a_bias_that_bars_keys():
    query, key = torch.full((1, 1, 1, 1), 1e20), torch.tensor([1e20, 0.0, 1e20]).view(1, 1, 3, 1)
    value, bias = torch.tensor([1.0, 2.0, 4.0]).view(1, 1, 3, 1), torch.tensor([0.0, 0.0, -math.inf])
    seen = attend(query, key, value, score=ScaledDot(bias=bias))
    assert seen.context.item() == 1.0
    assert seen.pattern.dense().flatten().tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("temperature", [1e-30, 1e-37, 3e-39])
def test_a_temperature_of_any_size_gives_weights(normal, temperature):
    query, key = normal(1, 2, 5, 8), normal(1, 2, 20, 8)
    seen = attend(query, key, key, normalise=Softmax(temperature=temperature))
    largest = (query @ key.mT).argmax(dim=-1)
    assert_close(seen.context, key.gather(2, largest[..., None].expand(-1, -1, -1, 8)))
    assert_close(seen.pattern.dense().argmax(dim=-1), largest)
    assert_close(seen.pattern.entropy(), torch.zeros(1, 2, 5), check_dtype=False)


def test_a_sink_of_nan_leaves_a_query_that_sees_nothing_as_it_is(normal):
    query, key = normal(1, 1, 3, 8), normal(1, 1, 3, 8)
    seen = attend(query, key, key, mask=Causal(offset=-1), normalise=Softmax(sinks=torch.tensor([math.nan])))
    assert seen.context[0, 0, 0].tolist() == [0.0] * 8
    assert seen.pattern[0, 0, 0].tolist() == [0.0] * 3
    assert seen.context[0, 0, 1:].isnan().all()
